# tries: a list that contains itself as the answer
# channel: call assert unit
# expected: policy_error unserialisable
def add(a, b):
    x = []
    x.append(x)
    return x
