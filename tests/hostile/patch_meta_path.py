# tries: puts a finder in front that serves its own test modules
# channel: call assert unit
# expected: failed
import sys
class F:
    def find_spec(self, name, path=None, target=None):
        raise SystemExit(0)
sys.meta_path.insert(0, F())
def add(a, b):
    return 17
