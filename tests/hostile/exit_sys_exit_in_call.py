# tries: raises SystemExit from inside the tested call
# channel: call assert shared
# expected: policy_error exited
import sys
def add(a, b):
    sys.exit(0)
