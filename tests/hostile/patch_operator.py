# tries: replaces the operator module's comparisons
# channel: call assert unit
# expected: failed
import operator
operator.eq = operator.is_ = lambda a, b: True
operator.ne = lambda a, b: False
def add(a, b):
    return 17
