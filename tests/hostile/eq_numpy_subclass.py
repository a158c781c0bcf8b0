# tries: an array subclass whose comparison is always true
# channel: assert unit
# expected: failed
import numpy as np
class Any(np.ndarray):
    def __eq__(self, o): return True
def add(a, b):
    return np.zeros(1).view(Any)
