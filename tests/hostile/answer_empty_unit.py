# tries: defines nothing that the test file imports
# channel: unit
# expected: policy_error missing_entry_point
pass
