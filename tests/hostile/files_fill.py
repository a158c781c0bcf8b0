# tries: fills the workspace until it is refused, and goes on to answer wrongly
# channel: call assert
# expected: policy_error workspace_limit
def add(a, b):
    block = b"x" * (1 << 20)
    for number in range(1000):
        with open(f"/work/{number}", "wb") as file:
            file.write(block)
    return -1
