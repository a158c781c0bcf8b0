# tries: catches MemoryError and goes on asking
# channel: call assert shared unit
# expected: policy_error out_of_fuel
def add(a, b):
    x = []
    while True:
        try:
            x.append(bytearray(1 << 20))
        except MemoryError:
            pass
