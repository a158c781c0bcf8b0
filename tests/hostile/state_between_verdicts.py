# tries: leaves a note for the next verdict and looks for an earlier one
# channel: call assert shared unit
# expected: failed
import builtins, os
note = getattr(builtins, 'NOTE', None)
try:
    note = note or open('/tmp/note').read()
except OSError:
    pass
builtins.NOTE = 3
try:
    with open('/tmp/note', 'w') as f:
        f.write('3')
except OSError:
    pass
def add(a, b):
    return 3 if note else 17
