# tries: prints without end
# channel: call assert shared unit program
# expected: policy_error output_limit
# expected[program]: end output_limit
while True:
    print('spam' * 1000)
