# tries: answers twice, the second time with what it wants to be believed
# channel: call assert
# expected: failed
import _host
import sys
frame = sys._getframe()
while 'turn' not in frame.f_globals:
    frame = frame.f_back
h = frame.f_globals
def add(a, b):
    _host.call(b'R' + h['encode'](('value', 3)))
    return 17
