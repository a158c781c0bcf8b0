# tries: calls the site module's quit, or raises what it would
# channel: call assert shared unit
# expected: policy_error exited
try:
    quit()
except NameError:
    raise SystemExit
