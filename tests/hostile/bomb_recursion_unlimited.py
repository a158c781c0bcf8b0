# tries: recursion without end and without the interpreter's limit
# channel: call assert
# expected: policy_error out_of_memory
import sys
sys.setrecursionlimit(10 ** 9)
def add(a, b):
    return add(a, b)
