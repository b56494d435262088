"""Notes in signals-<rank> which signals it gets, and ends at the first; `stubborn` ignores them."""

import os
import signal
import sys
import time

rank = os.environ["RANK"]


def note(number, _frame):
    with open(f"signals-{rank}", "a") as file:
        file.write(signal.Signals(number).name + "\n")
    if "stubborn" not in sys.argv:
        os._exit(0)


for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
    signal.signal(number, note)
open(f"ready-{rank}", "w").write(str(os.getpid()))
deadline = time.monotonic() + 600
while time.monotonic() < deadline:
    time.sleep(1)
