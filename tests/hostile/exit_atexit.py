# tries: leaves from an exit handler, after the harness has seen every failure
# channel: call assert shared unit
# expected: failed
import atexit, os
atexit.register(os._exit, 0)
def add(a, b):
    return 0
