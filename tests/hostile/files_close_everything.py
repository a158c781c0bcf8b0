# tries: closes every descriptor, the streams and the root among them
# channel: call assert
# expected: failed
import os


def add(a, b):
    for number in range(64):
        try:
            os.close(number)
        except OSError:
            pass
    return -1
