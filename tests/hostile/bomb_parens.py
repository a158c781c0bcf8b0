# tries: source with a hundred thousand nested parentheses
# channel: call assert
# expected: policy_error runtime
def add(a, b):
    return eval('(' * 10 ** 5 + ')' * 10 ** 5)
