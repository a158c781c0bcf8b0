# tries: puts empty modules where a checker would import
# channel: call assert unit
# expected: policy_error unserialisable
# expected[call]: failed
import sys, types
for name in ('json', 'math', 'operator', 'unittest', 'numpy', 'traceback', 'collections'):
    sys.modules[name] = types.ModuleType(name)
def add(a, b):
    return 17
