# tries: leaves while the text of its exception is made
# channel: call assert shared unit
# expected: policy_error exited
import os
class E(Exception):
    def __str__(self):
        os._exit(0)
def add(a, b):
    raise E
