# tries: tells the judge that its object equals the state of any other
# channel: assert unit
# expected: failed
import sys
frame = sys._getframe()
while 'turn' not in frame.f_globals:
    frame = frame.f_back
h = frame.f_globals
h['_OPS']['plain'] = lambda v: (17,)
h['_OPS']['state'] = lambda v: None
class A(int):
    pass
def add(a, b):
    return A(17)
