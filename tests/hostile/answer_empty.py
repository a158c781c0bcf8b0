# tries: defines nothing
# channel: call assert shared
# expected: policy_error missing_entry_point
pass
