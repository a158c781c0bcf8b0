# tries: ten thousand keys with one hash
# channel: call assert shared unit
# expected: policy_error out_of_fuel
class K:
    def __hash__(self): return 1
    def __eq__(self, o): return self is o
def add(a, b):
    return len({K(): 1 for _ in range(10 ** 5)})
