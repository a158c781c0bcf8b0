# tries: writes bytes that are no text, NULs and terminal escapes
# channel: call assert shared unit
# expected: failed
import sys
sys.stdout.buffer.write(b'\xff\xfe\0\x1b]0;owned\x07\x1b[2J')
sys.stdout.flush()
def add(a, b):
    return 17
