"""Between a program of muster, which starts this, and the process that it asks: lines there, lines back."""

import socket
import sys
import threading


def main() -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])

    def forward() -> None:
        for line in sys.stdin.buffer:
            connection.sendall(line)
        connection.shutdown(socket.SHUT_WR)

    threading.Thread(target=forward, daemon=True).start()
    with connection.makefile("rb") as answers:
        for line in answers:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
