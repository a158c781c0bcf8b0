# tries: a generator that never ends as the answer
# channel: assert
# expected: failed
def add(a, b):
    while True:
        yield 3
