# tries: leaves from a finaliser that runs when the answer is dropped
# channel: call assert
# expected: policy_error exited
import os
class Bomb:
    def __del__(self):
        os._exit(0)
def add(a, b):
    Bomb()
    return 0
