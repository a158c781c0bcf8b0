# tries: replaces math.isclose and fabs
# channel: call assert unit
# expected: failed
import math
math.isclose = lambda *a, **k: True
math.fabs = lambda x: 0
def add(a, b):
    return 17
