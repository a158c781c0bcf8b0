# tries: raises SystemExit with a status that reads like success
# channel: call assert shared unit
# expected: policy_error exited
raise SystemExit(0)
