# tries: leaves the workspace by relative and absolute paths
# channel: call assert unit
# expected: failed
import os
def add(a, b):
    for name in ('../../etc/passwd', '/etc/shadow', '/root/.ssh/id_rsa', '/../../../etc/hostname', '//etc/passwd'):
        try:
            open(name).read()
            return 3
        except OSError:
            pass
    return 17
