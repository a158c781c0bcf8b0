# tries: answers the judge across the border with bytes no harness writes
# channel: assert unit
# expected: policy_error unserialisable
import sys
frame = sys._getframe()
while 'turn' not in frame.f_globals:
    frame = frame.f_back
h = frame.f_globals
h['Out'].frame = lambda self: b'\x00\xff' * 50
def add(a, b):
    return 17
