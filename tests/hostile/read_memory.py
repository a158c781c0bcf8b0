# tries: scans a buffer beyond its bounds
# channel: call assert unit
# expected: failed
def add(a, b):
    try:
        import ctypes
        data = ctypes.string_at(id(a) - 1000, 4000)
        return 3 if b'assert add' in data else 17
    except Exception:
        return 17
