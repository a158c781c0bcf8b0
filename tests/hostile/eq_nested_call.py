# tries: the object that equals everything deep inside plain containers, compared by the host
# channel: call
# expected: policy_error unserialisable
class Any:
    def __eq__(self, o): return True
    def __ne__(self, o): return False
    def __hash__(self): return 0
def add(a, b):
    return [(Any(),)]
