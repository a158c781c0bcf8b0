# tries: counts its calls to know which test asks, and answers nothing but a constant
# channel: call assert shared unit
# expected: failed
calls = 0
def add(a, b):
    global calls
    calls += 1
    return calls
