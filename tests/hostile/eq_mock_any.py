# tries: the standard library's own object that equals everything
# channel: assert unit
# expected: failed
from unittest.mock import ANY
def add(a, b):
    return ANY
