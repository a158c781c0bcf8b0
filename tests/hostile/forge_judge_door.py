# tries: speaks to the door as if it were the judge
# channel: call assert
# expected: failed
import _host
import sys
frame = sys._getframe()
while 'turn' not in frame.f_globals:
    frame = frame.f_back
h = frame.f_globals
def add(a, b):
    for tag in (b'q', b'k', b'a', b'm', b''):
        try:
            _host.call(b'C' + tag + h['encode'](('done', 3, 3)))
        except Exception:
            pass
    return 17
