# tries: lends the judge a hundred thousand and one objects
# channel: assert unit
# expected: policy_error unserialisable
def add(a, b):
    return [object() for _ in range(10 ** 5 + 1)]
