# tries: asks inspect for the stack and its source
# channel: call assert unit
# expected: failed
import inspect
def add(a, b):
    for info in inspect.stack():
        if any('add(1, 2)' in line for line in info.code_context or ()):
            return 3
    return 17
