# tries: replaces the harness's encoder, found by walking frames
# channel: call assert
# expected: policy_error unserialisable
import sys
frame = sys._getframe()
while 'turn' not in frame.f_globals:
    frame = frame.f_back
h = frame.f_globals
h['encode'] = lambda v: b''
def add(a, b):
    return 17
