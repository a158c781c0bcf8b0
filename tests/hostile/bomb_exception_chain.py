# tries: ten thousand chained exceptions
# channel: call assert shared unit
# expected: policy_error runtime
# expected[unit]: policy_error out_of_fuel
def add(a, b):
    error = None
    for _ in range(10 ** 4):
        new = ValueError('x')
        new.__context__ = error
        error = new
    raise error
