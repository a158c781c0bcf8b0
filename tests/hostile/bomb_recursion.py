# tries: recursion without end
# channel: call assert shared unit
# expected: policy_error runtime
def add(a, b):
    return add(a, b)
