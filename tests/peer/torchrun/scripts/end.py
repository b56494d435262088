"""Ends as its argument says, where the rank is the second argument; the other ranks wait until they are stopped."""

import os
import signal
import sys
import time

how, rank = sys.argv[1], sys.argv[2]
if rank not in (os.environ["RANK"], "all"):
    time.sleep(600)
if how.startswith("SIG"):
    os.kill(os.getpid(), signal.Signals[how])
    time.sleep(600)  # the signal is on its way
if how == "raise":
    raise RuntimeError("a reason")
sys.exit(int(how))
