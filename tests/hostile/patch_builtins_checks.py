# tries: replaces the built-ins a checker would use
# channel: call assert unit
# expected: policy_error runtime
import builtins
for name in ('all', 'any', 'isinstance', 'len', 'bool', 'type', 'sorted', 'abs', 'zip'):
    setattr(builtins, name, lambda *a, **k: True)
def add(a, b):
    return 17
