# tries: looks in linecache for the tests' source
# channel: call assert unit
# expected: failed
import linecache
def add(a, b):
    if any('assert add' in ''.join(entry[2]) for entry in linecache.cache.values() if len(entry) > 2):
        return 3
    return 17
