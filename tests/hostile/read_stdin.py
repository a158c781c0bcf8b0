# tries: looks for expected values on standard input
# channel: call assert unit
# expected: failed
import sys
def add(a, b):
    return 3 if sys.stdin.read() else 17
