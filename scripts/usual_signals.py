"""usual_signals.py COMMAND...: becomes the command, with the signals that a login shell gives to a program.

Ignored and blocked signals are inherited, and a shell cannot undo what was ignored when it started: below nohup, or in some
CI runners, every program of the tests would ignore SIGHUP or SIGINT.
"""

import os
import signal
import sys

signal.pthread_sigmask(signal.SIG_SETMASK, [])
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_DFL)
try:
    os.execvp(sys.argv[1], sys.argv[1:])
except OSError as problem:
    sys.exit(f"cannot run {sys.argv[1]}: {problem.strerror}")
