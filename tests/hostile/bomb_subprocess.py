# tries: starts a shell
# channel: call assert shared unit
# expected: policy_error runtime
import subprocess
def add(a, b):
    return subprocess.check_output(['sh', '-c', 'echo 3'])
