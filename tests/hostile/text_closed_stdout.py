# tries: closes the standard streams
# channel: call assert
# expected: failed
import sys
sys.stdout.close()
sys.stderr.close()
def add(a, b):
    return 17
