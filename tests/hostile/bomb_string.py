# tries: a string of a terabyte
# channel: call assert shared unit
# expected: policy_error runtime
def add(a, b):
    return 'a' * 2 ** 40
