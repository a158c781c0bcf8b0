# tries: aborts the interpreter
# channel: call assert shared unit
# expected: policy_error runtime
import os
def add(a, b):
    os.abort()
