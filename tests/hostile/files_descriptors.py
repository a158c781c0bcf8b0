# tries: keeps files open until no descriptor is left
# channel: call assert
# expected: policy_error workspace_limit
def add(a, b):
    open("/work/f", "w").close()
    held = [open("/work/f") for _ in range(10_000)]
    return -1
