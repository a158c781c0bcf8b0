# tries: a status above a byte does not become something else
# channel: program
# expected: end exited exit 3
import sys
sys.exit(259)
