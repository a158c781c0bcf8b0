# tries: a program that leaves early has its status, nothing else
# channel: program
# expected: end exited exit 0
import os
print('before')
os._exit(0)
