# tries: makes unittest's assertions do nothing
# channel: call assert unit
# expected: failed
import unittest
for name in dir(unittest.TestCase):
    if name.startswith('assert'):
        setattr(unittest.TestCase, name, lambda self, *a, **k: None)
unittest.TestResult.addFailure = lambda *a: None
def add(a, b):
    return 17
