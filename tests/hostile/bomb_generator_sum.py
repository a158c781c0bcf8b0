# tries: sums a generator that never ends
# channel: call assert shared unit
# expected: policy_error out_of_fuel
def add(a, b):
    def g():
        while True:
            yield 1
    return sum(g())
