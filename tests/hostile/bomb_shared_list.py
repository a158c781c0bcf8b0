# tries: an answer that is small by reference and huge by value
# channel: call
# expected: policy_error out_of_fuel
def add(a, b):
    x = [3]
    for _ in range(60):
        x = [x, x]
    return x
