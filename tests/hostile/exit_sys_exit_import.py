# tries: leaves with `sys.exit(0)` while it is imported
# channel: call assert shared unit
# expected: policy_error exited
import sys
sys.exit(0)
