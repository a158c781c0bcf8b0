# tries: replaces compile and exec
# channel: call assert
# expected: failed
import builtins
builtins.compile = lambda *a, **k: None
builtins.exec = lambda *a, **k: None
def add(a, b):
    return 17
