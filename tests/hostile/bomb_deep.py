# tries: an answer nested a thousand deep
# channel: call assert unit
# expected: policy_error unserialisable
def add(a, b):
    x = 3
    for _ in range(1000):
        x = [x]
    return x
