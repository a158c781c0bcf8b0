# tries: an answer with a million and one entries
# channel: call assert unit
# expected: policy_error unserialisable
def add(a, b):
    return dict.fromkeys(range(10 ** 6 + 1))
