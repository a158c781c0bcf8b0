# tries: writes to standard error without end
# channel: call assert shared unit program
# expected: policy_error output_limit
# expected[program]: end output_limit
import sys
while True:
    sys.stderr.write('spam' * 1000)
