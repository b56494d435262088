"""Says known lines on both streams. With --fail-first the ranks of the first round end with 7 after that."""

import os
import sys

rank, restart = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
out, err = sys.stdout.buffer, sys.stderr.buffer


def say(stream, text: bytes) -> None:
    """In one write, so that a reader that polls never sees half a line."""
    stream.write(text)
    stream.flush()


lines = [f"rank {rank} round {restart} line {number}\n".encode() for number in range(20)]
say(out, b"".join(lines))
say(err, b"".join(b"error of " + line for line in lines))
say(out, b"\n  indented, then an empty line\n\n")
say(out, f"an apple of rank {rank}\nan orange, and an apple\n".encode())
say(out, "umlauts äöü and 漢字\n".encode())
say(err, f"a pear of rank {rank}\n".encode())
say(out, b"long " + rank.encode() * 200_000 + b"\n")
if "--bytes" in sys.argv:
    say(out, b"not text: \xff\xfe\x00 end\n")
if "--carriage-return" in sys.argv:
    say(err, b"step 1\rstep 2\rstep 3\n")
if "--open-end" in sys.argv and rank == "0":
    say(out, b"the last line has no end")
if "--fail-first" in sys.argv and restart == "0":
    if rank == "1":
        sys.exit(7)
    import time

    time.sleep(600)  # until it is stopped
