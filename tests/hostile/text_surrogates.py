# tries: an answer of lone surrogates
# channel: call assert unit
# expected: failed
def add(a, b):
    return '\ud800\udfff' * 10
