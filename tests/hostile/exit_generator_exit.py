# tries: raises GeneratorExit, which iteration would swallow
# channel: call assert shared unit
# expected: policy_error runtime
def add(a, b):
    raise GeneratorExit
