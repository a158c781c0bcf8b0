# tries: an integer of a hundred thousand digits
# channel: call assert shared unit
# expected: failed
def add(a, b):
    return 10 ** 10 ** 5
