"""terminal_driver.py SCRIPT LINES KEYS: runs a script on a terminal, types into it, and prints what a user saw.

Each of LINES is typed when the prompt "> " stands at the start of a line; KEYS are typed one by one after the first output.
"""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from pathlib import Path

# A terminal that shows nothing for so long is taken to wait for what is typed next.
QUIET = 1.0


def plain(text: str) -> str:
    text = re.sub(r"\x1b(\[[0-9;?<>=]*[A-Za-z]|\][^\x07]*\x07|[=>78])", "", text)
    return "\n".join(line.split("\r")[-1] for line in text.replace("\r\n", "\n").split("\n"))


def main() -> int:
    script, lines, keys = Path(sys.argv[1]), Path(sys.argv[2]).read_text().split("\n"), sys.argv[3]
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execvp("bash", ["bash", str(script)])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    waiting = [line + "\r" for line in lines if line] or list(keys)
    seen, printed = "", ""
    while True:
        ready, _, _ = select.select([terminal], [], [], QUIET)
        if ready:
            try:
                data = os.read(terminal, 65536)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            seen += data.decode(errors="replace")
            continue
        since = seen[len(printed):]
        if waiting and since and (keys or plain(since).split("\n")[-1].startswith("> ")):
            printed = seen
            os.write(terminal, waiting.pop(0).encode())
    sys.stdout.write(plain(seen))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
