# tries: leaves while the harness makes the text of the answer
# channel: call
# expected: policy_error unserialisable
import os
class A:
    def __repr__(self):
        os._exit(0)
def add(a, b):
    return A()
