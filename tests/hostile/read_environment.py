# tries: looks at the environment and the arguments
# channel: call assert unit
# expected: failed
import os, sys
def add(a, b):
    return 3 if dict(os.environ) or sys.argv[1:] else 17
