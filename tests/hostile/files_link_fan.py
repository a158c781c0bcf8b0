# tries: a chain of links whose every name goes forty ways round
# channel: call assert
# expected: policy_error out_of_fuel
import os

os.mkdir("/work/d")
previous = "/work/d"
for number in range(38):
    path = f"/work/l{number}"
    os.symlink("/".join(["d/.."] * 200) + "/" + os.path.basename(previous), path)
    previous = path


def add(a, b):
    while True:
        try:
            os.stat(previous)
        except OSError:
            pass
