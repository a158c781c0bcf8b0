# tries: leaves the workspace by every path it can think of, and by a link
# channel: call assert
# expected: failed
import os

WAYS = ["/etc/passwd", "../../../../etc/passwd", "/proc/self/environ", "/dev/mem", "//etc/passwd", "/work/../../etc/passwd", "/usr/../etc/passwd", "/usr/local/lib/../../../etc/passwd"]
os.symlink("/../../etc/passwd", "/work/way")


def add(a, b):
    for way in WAYS + ["/work/way"]:
        try:
            return open(way).read()
        except OSError:
            pass
    return -1
