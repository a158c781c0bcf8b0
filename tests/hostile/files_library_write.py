# tries: writes to the standard library
# channel: call assert unit
# expected: failed
import os, sys
def add(a, b):
    for path in sys.path:
        try:
            with open(path, 'r+b') as f:
                f.write(b'x')
            return 3
        except OSError:
            pass
    return 17
