# tries: replaces open and print
# channel: call assert unit
# expected: failed
import builtins
builtins.open = builtins.print = None
def add(a, b):
    return 17
