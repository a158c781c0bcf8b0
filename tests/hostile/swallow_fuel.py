# tries: catches everything around an endless loop
# channel: call assert shared unit
# expected: policy_error out_of_fuel
def add(a, b):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
