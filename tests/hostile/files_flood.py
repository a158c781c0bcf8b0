# tries: makes files without end
# channel: call assert unit
# expected: policy_error workspace_limit
def add(a, b):
    for n in range(10 ** 6):
        with open(f'f{n}', 'w') as f:
            f.write('x')
    return 17
