# tries: the decimal text of a huge integer, past the interpreter's own limit
# channel: call assert shared unit
# expected: policy_error runtime
def add(a, b):
    return str(10 ** 10 ** 5)
