# tries: starts threads that would outlive the verdict
# channel: call assert shared unit
# expected: policy_error runtime
import threading
def add(a, b):
    t = threading.Thread(target=lambda: None)
    t.start()
    return 17
