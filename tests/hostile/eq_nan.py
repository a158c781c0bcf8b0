# tries: NaN, which no comparison may take for anything
# channel: call assert shared unit
# expected: failed
def add(a, b):
    return float('nan')
