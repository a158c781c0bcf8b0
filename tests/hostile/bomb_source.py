# tries: an enormous expression handed to the compiler
# channel: call assert
# expected: policy_error runtime
def add(a, b):
    return eval('+'.join(['1'] * 10 ** 6))
