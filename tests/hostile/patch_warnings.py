# tries: turns warnings into exits
# channel: call assert unit
# expected: failed
import sys, warnings
warnings.simplefilter('error')
sys.unraisablehook = lambda *a: None
def add(a, b):
    return 17
