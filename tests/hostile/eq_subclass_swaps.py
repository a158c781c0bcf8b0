# tries: assigns another class to a living object so that its type looks exact
# channel: assert unit
# expected: failed
class A:
    pass
class Any:
    def __eq__(self, o): return True
    __hash__ = None
x = A()
x.__class__ = Any
def add(a, b):
    return x
