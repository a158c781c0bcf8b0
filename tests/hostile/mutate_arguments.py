# tries: changes its arguments into what is expected
# channel: call assert shared unit
# expected: failed
def add(a, b):
    a = b = 3
    return None
