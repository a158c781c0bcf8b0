# tries: makes AssertionError something nobody raises
# channel: call assert unit
# expected: failed
import builtins
builtins.AssertionError = type('Never', (BaseException,), {})
def add(a, b):
    return 17
