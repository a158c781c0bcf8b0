# tries: asks the door for the judge's job
# channel: call assert
# expected: failed
import _host
def add(a, b):
    job = _host.call(b'J')
    return 3 if b'assert add' in job else 17
