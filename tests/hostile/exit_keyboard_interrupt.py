# tries: raises KeyboardInterrupt, which `except Exception` misses
# channel: call assert shared unit
# expected: policy_error runtime
def add(a, b):
    raise KeyboardInterrupt
