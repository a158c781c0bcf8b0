# tries: raises StopIteration into the tests
# channel: call assert unit
# expected: policy_error runtime
def add(a, b):
    raise StopIteration
