# tries: answers with a list that claims four billion elements
# channel: call assert
# expected: policy_error unserialisable
import _host
import sys
frame = sys._getframe()
while 'turn' not in frame.f_globals:
    frame = frame.f_back
h = frame.f_globals
call = _host.call
class Fake:
    @staticmethod
    def call(frame):
        return call(b'R' + b'L\xff\xff\xff\xff' if frame[:1] == b'R' else frame)
h['_host'] = Fake
def add(a, b):
    return 17
