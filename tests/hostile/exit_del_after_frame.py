# tries: leaves from a finaliser kept alive until the interpreter lets go of the module
# channel: call assert
# expected: failed
import os
class Bomb:
    def __del__(self):
        os._exit(0)
KEEP = Bomb()
def add(a, b):
    return 0
