# tries: a named tuple with its own equality
# channel: assert unit
# expected: failed
from collections import namedtuple
class P(namedtuple('P', 'x')):
    def __eq__(self, o): return True
    __hash__ = None
def add(a, b):
    return P(7)
