# tries: names of a million characters
# channel: call assert unit
# expected: failed
def add(a, b):
    for name in ('x' * 10 ** 6, 'd/' * 10 ** 5):
        try:
            open(name, 'w')
            return 3
        except (OSError, MemoryError):
            pass
    return 17
