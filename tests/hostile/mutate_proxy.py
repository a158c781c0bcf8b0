# tries: an object with attributes that grow with every look
# channel: assert unit
# expected: failed
class A:
    n = 0
    def __getattribute__(self, name):
        A.n += 1
        return A.n
def add(a, b):
    return A()
