# tries: settrace and setprofile hooks that rewrite locals
# channel: call assert shared unit
# expected: failed
import sys
def hook(frame, event, arg):
    for name in ('expected', 'right', 'left'):
        frame.f_locals.get(name)
    return hook
sys.settrace(hook)
sys.setprofile(hook)
def add(a, b):
    return 17
