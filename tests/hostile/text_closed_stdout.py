# tries: closes the standard streams
# channel: call assert
# expected: policy_error runtime
import sys
sys.stdout.close()
sys.stderr.close()
def add(a, b):
    return 17
