# tries: monitoring hooks on every line that return a disabling mark
# channel: call assert unit
# expected: failed
import sys
m = sys.monitoring
m.use_tool_id(3, 'x')
m.register_callback(3, m.events.LINE, lambda *a: None)
m.set_events(3, m.events.LINE)
def add(a, b):
    return 17
