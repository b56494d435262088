"""Ports for tests that must name one before anybody listens on it."""

import random
import socket


def free_port() -> int:
    """A port that nobody listens on, below those that the kernel hands out by itself: no other process gets it by chance."""
    while True:
        port = random.SystemRandom().randrange(20000, 32000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
            return port
