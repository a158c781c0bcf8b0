# tries: replaces the standard library's archive
# channel: call assert
# expected: policy_error runtime
import os

os.rename("/usr/local/lib/python315.zip", "/tmp/gone.zip")


def add(a, b):
    return -1
