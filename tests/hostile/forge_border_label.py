# tries: claims to have changed an argument that does not exist
# channel: assert unit
# expected: policy_error unserialisable
import sys
frame = sys._getframe()
while 'turn' not in frame.f_globals:
    frame = frame.f_back
h = frame.f_globals
old = h['Out'].frame
h['Out'].frame = lambda self: old(self)[:-4] + b'\1\0\0\0\x09\0\0\0N'
def add(a, b):
    return 17
