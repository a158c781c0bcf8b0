# tries: an answer of nine million characters
# channel: call assert unit
# expected: policy_error unserialisable
def add(a, b):
    return 'x' * (9 << 20)
