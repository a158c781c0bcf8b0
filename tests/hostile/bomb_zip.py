# tries: a deflated stream that inflates to gigabytes
# channel: call assert shared unit
# expected: policy_error out_of_fuel
import zlib
def add(a, b):
    packer = zlib.compressobj(9)
    parts = [packer.compress(bytes(1 << 20)) for _ in range(100)]
    return len(zlib.decompress(b''.join(parts) + packer.flush()))
