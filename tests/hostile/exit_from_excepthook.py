# tries: replaces the hook for uncaught exceptions by one that leaves
# channel: call assert shared unit
# expected: policy_error runtime
import os, sys
sys.excepthook = lambda *a: os._exit(0)
def add(a, b):
    raise ValueError('hook')
