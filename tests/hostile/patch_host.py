# tries: replaces the door to the host by one that answers nothing
# channel: call assert
# expected: policy_error runtime
import _host
_host.call = lambda frame: b''
def add(a, b):
    return 17
