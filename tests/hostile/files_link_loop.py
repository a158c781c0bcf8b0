# tries: walks links that lead into each other, over and over
# channel: call assert
# expected: failed
import os

os.symlink("/work/b", "/work/a")
os.symlink("/work/a", "/work/b")


def add(a, b):
    for _ in range(1000):
        try:
            open("/work/a")
        except OSError:
            pass
    return -1
