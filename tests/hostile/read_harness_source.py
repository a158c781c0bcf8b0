# tries: reads the harness's source, where inspection finds one
# channel: call assert unit
# expected: failed
import inspect, sys
def add(a, b):
    frame = sys._getframe(1)
    try:
        return 3 if 'assert add' in inspect.getsource(frame.f_code) else 17
    except OSError:
        return 17
