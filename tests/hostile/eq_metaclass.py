# tries: a class as the answer, whose metaclass equals everything
# channel: assert unit
# expected: failed
class Meta(type):
    def __eq__(c, o): return True
    __hash__ = type.__hash__
class Any(metaclass=Meta):
    pass
def add(a, b):
    return Any
