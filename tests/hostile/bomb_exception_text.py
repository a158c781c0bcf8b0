# tries: an exception with a text of fifty megabytes
# channel: call assert shared unit
# expected: policy_error output_limit
# expected[shared]: policy_error runtime
def add(a, b):
    raise ValueError('x' * (10 << 20))
