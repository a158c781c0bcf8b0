# tries: makes numpy's comparisons always true
# channel: call assert unit
# expected: failed
import numpy
numpy.allclose = numpy.array_equal = lambda *a, **k: True
numpy.testing = None
def add(a, b):
    return 17
