"""Raises in rank 1 below @record; the others wait until they are stopped."""

import os
import time

from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    if os.environ["RANK"] != "1":
        open("waiting", "w")
        time.sleep(600)
    while not os.path.exists("waiting"):
        time.sleep(0.02)
    raise ValueError("the answer is not 41")


main()
