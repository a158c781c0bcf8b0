# tries: answers with text that looks like the number
# channel: call assert shared unit
# expected: failed
def add(a, b):
    return str(a + b) if isinstance(a, int) else a + b
