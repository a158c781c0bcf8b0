# tries: a value where the function should be
# channel: call assert shared
# expected: policy_error missing_entry_point
add = 3
