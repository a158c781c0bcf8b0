# tries: an exception whose class has a number for a name
# channel: assert unit
# expected: policy_error runtime
class M(type):
    @property
    def __name__(c):
        return 5
class E(Exception, metaclass=M):
    pass
def add(a, b):
    raise E('x')
