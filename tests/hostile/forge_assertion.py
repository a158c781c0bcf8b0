# tries: raises AssertionError itself, hoping tests take it for their own
# channel: call assert unit
# expected: policy_error runtime
def add(a, b):
    raise AssertionError('expected')
