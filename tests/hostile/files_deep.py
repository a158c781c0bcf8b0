# tries: nests directories without end
# channel: call assert
# expected: policy_error workspace_limit
import os


def add(a, b):
    for _ in range(1000):
        os.mkdir("d")
        os.chdir("d")
    return -1
