# tries: plants a module named pytest that passes everything, and a conftest
# channel: call assert unit
# expected: failed
import sys, types
for name in ('pytest', 'conftest', 'sitecustomize', 'usercustomize'):
    m = sys.modules[name] = types.ModuleType(name)
    m.raises = m.approx = m.fixture = lambda *a, **k: None
def add(a, b):
    return 17
