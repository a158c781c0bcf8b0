# tries: an object whose truth alternates
# channel: assert unit
# expected: failed
class Any:
    n = 0
    def __bool__(self):
        Any.n += 1
        return Any.n % 2 == 1
    def __eq__(self, o): return self
def add(a, b):
    return Any()
