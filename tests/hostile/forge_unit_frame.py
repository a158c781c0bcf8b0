# tries: answers the host with a forged `unit` frame and leaves
# channel: call assert shared unit
# expected: policy_error exited
import _host
import sys
frame = sys._getframe()
while 'turn' not in frame.f_globals:
    frame = frame.f_back
h = frame.f_globals
import os
def add(a, b):
    _host.call(b'R' + h['encode'](('unit', [('t', 'passed', '', '')])))
    os._exit(0)
