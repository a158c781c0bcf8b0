# tries: writes to the descriptor itself
# channel: call assert shared unit
# expected: policy_error output_limit
import os
def add(a, b):
    while True:
        os.write(1, b'x' * 65536)
