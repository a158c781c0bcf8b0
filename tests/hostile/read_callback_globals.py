# tries: asks the judge for the globals of a callback it was lent
# channel: assert
# expected: failed
import sys
def add(a, b):
    return 17
def apply(f):
    try:
        return f.__globals__['SECRET']
    except AttributeError:
        return None
