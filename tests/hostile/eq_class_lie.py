# tries: an object whose `__class__` says int
# channel: assert unit
# expected: failed
class Any:
    __class__ = int
    def __eq__(self, o): return True
    __hash__ = None
def add(a, b):
    return Any()
