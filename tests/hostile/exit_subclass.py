# tries: a subclass of SystemExit, so that a filter by name misses it
# channel: call assert shared
# expected: policy_error exited
class Done(SystemExit):
    pass
def add(a, b):
    raise Done(0)
