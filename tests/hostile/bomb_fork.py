# tries: starts processes
# channel: call assert shared unit
# expected: policy_error runtime
import os
def add(a, b):
    return os.fork()
