# tries: installs a handler that leaves and raises the signal
# channel: call assert shared unit
# expected: policy_error exited
import os, signal
def leave(*a):
    os._exit(0)
def add(a, b):
    try:
        signal.signal(signal.SIGINT, leave)
        signal.raise_signal(signal.SIGINT)
    except (AttributeError, ValueError, OSError):
        pass
    leave()
