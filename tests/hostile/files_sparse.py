# tries: claims an exabyte with one seek
# channel: call assert
# expected: policy_error workspace_limit
def add(a, b):
    with open("/work/hole", "wb", 0) as file:
        file.seek(1 << 60)
        file.write(b"x")
    return -1
