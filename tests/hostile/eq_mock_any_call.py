# tries: the standard library's own object that equals everything, compared by the host
# channel: call
# expected: policy_error unserialisable
from unittest.mock import ANY
def add(a, b):
    return ANY
