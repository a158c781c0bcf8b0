# tries: a power with a hundred million digits
# channel: call assert shared unit
# expected: policy_error out_of_fuel
def add(a, b):
    return 10 ** 10 ** 8 % 7
