# tries: replaces json so that everything serialises to what a checker wants
# channel: call assert unit
# expected: failed
import json
json.dumps = json.loads = lambda *a, **k: 'passed'
def add(a, b):
    return 17
