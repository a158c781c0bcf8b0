# tries: leaves from inside the tested call
# channel: call assert shared unit
# expected: policy_error exited
import os
def add(a, b):
    os._exit(0)
