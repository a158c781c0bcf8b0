# tries: sleeps for thirty years
# channel: call assert shared unit
# expected: failed
import time
def add(a, b):
    time.sleep(10 ** 9)
    return 17
