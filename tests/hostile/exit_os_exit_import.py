# tries: leaves with status 0 while it is imported
# channel: call assert shared unit
# expected: policy_error exited
import os
os._exit(0)
