# tries: runs the exit handlers by hand from inside the call
# channel: call assert shared unit
# expected: policy_error exited
import atexit, os
atexit.register(os._exit, 0)
def add(a, b):
    atexit._run_exitfuncs()
    return 0
