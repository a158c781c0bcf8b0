# tries: raises what test runners take for a skipped test
# channel: call assert unit
# expected: policy_error runtime
import unittest
def add(a, b):
    raise unittest.SkipTest('skipped')
