# tries: an enormous expression handed to the compiler
# channel: call assert
# expected: policy_error out_of_memory
def add(a, b):
    return eval('+'.join(['1'] * 10 ** 6))
