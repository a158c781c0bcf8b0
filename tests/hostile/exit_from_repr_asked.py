# tries: leaves while the judge asks for the answer's text to show it
# channel: assert
# expected: policy_error exited
import os
class A:
    def __repr__(self):
        os._exit(0)
def add(a, b):
    return A()
