# tries: an object that has every attribute
# channel: assert unit
# expected: failed
class Any:
    def __getattr__(self, n): return self
    def __call__(self, *a, **k): return True
    def __eq__(self, o): return True
    __hash__ = None
def add(a, b):
    return Any()
