# tries: leaves when a suspended generator is closed
# channel: call assert shared unit
# expected: policy_error exited
import os
def g():
    try:
        yield 1
    finally:
        os._exit(0)
def add(a, b):
    it = g()
    next(it)
    del it
    return 0
