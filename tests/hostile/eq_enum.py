# tries: an enumeration whose members equal everything
# channel: assert unit
# expected: failed
import enum
class E(enum.IntEnum):
    A = 7
    def __eq__(self, o): return True
    __hash__ = int.__hash__
def add(a, b):
    return E.A
