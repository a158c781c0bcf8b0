# tries: replaces the harness's own jobs by ones that report success
# channel: call assert
# expected: policy_error runtime
# expected[assert]: failed
import sys
frame = sys._getframe()
while 'turn' not in frame.f_globals:
    frame = frame.f_back
h = frame.f_globals
for name in list(h['_JOBS']):
    h['_JOBS'][name] = lambda *a: ('done', 3, 3)
def add(a, b):
    return 17
