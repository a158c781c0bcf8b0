# tries: waits for input that never comes
# channel: call assert shared unit
# expected: policy_error runtime
def add(a, b):
    while True:
        input()
