# tries: breaks the module the harness packs its frames with
# channel: call assert
# expected: failed
import struct
struct.Struct = None
struct.unpack_from = None
def add(a, b):
    return 17
