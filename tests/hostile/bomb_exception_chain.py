# tries: ten thousand chained exceptions
# channel: call assert shared unit
# expected: policy_error runtime
def add(a, b):
    error = None
    for _ in range(10 ** 4):
        new = ValueError('x')
        new.__context__ = error
        error = new
    raise error
