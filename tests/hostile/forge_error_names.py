# tries: an exception whose class has a name that is no name
# channel: call assert shared unit
# expected: policy_error runtime
class M(type):
    @property
    def __name__(c):
        return 'a\0b'
class E(Exception, metaclass=M):
    pass
def add(a, b):
    raise E('x')
