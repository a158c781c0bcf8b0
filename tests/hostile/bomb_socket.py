# tries: opens a connection
# channel: call assert shared unit
# expected: policy_error runtime
import socket
def add(a, b):
    return socket.create_connection(('127.0.0.1', 80))
