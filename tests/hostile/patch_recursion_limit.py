# tries: a recursion limit so low that checking fails
# channel: call assert
# expected: policy_error runtime
import sys
def add(a, b):
    sys.setrecursionlimit(6)
    return 17
