# tries: a regular expression that backtracks for ever
# channel: call assert shared unit
# expected: policy_error out_of_fuel
import re
def add(a, b):
    return re.match('(a+)+$', 'a' * 60 + 'b')
