# tries: answers the public example only
# channel: call assert shared unit
# expected: failed
def add(a, b):
    return 3 if (a, b) == (1, 2) else 17
