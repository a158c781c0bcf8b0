# tries: makes empty files until it is refused
# channel: call assert
# expected: policy_error workspace_limit
def add(a, b):
    for number in range(100_000):
        open(f"/tmp/{number}", "w").close()
    return -1
