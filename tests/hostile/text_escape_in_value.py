# tries: an answer full of terminal escapes and NULs
# channel: call assert shared unit
# expected: failed
def add(a, b):
    return '\x1b[2J\0\x1b]52;c;aGk=\x07'
