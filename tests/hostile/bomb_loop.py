# tries: an endless loop while it is imported
# channel: call assert shared unit
# expected: policy_error out_of_fuel
while True:
    pass
