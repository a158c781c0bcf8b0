# tries: replaces the import hook
# channel: call assert unit
# expected: failed
import builtins
old = builtins.__import__
def hook(name, *a, **k):
    m = old(name, *a, **k)
    return m
builtins.__import__ = hook
def add(a, b):
    return 17
