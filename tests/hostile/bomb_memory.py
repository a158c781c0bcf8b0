# tries: asks for memory without end
# channel: call assert shared unit
# expected: policy_error out_of_memory
def add(a, b):
    x = []
    while True:
        x.append(bytearray(1 << 20))
