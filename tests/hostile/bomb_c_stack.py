# tries: recursion through C: a repr nested a million deep
# channel: call assert shared unit
# expected: policy_error stack_overflow
# expected[assert]: policy_error runtime
# expected[unit]: policy_error out_of_fuel
import sys
sys.setrecursionlimit(10 ** 9)
def add(a, b):
    x = []
    for _ in range(10 ** 6):
        x = [x]
    return repr(x)
