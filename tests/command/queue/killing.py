"""Who kills what a queue is made of, while a test goes on."""

import os
import pathlib
import random
import signal
import threading


class Killer:
    """Kills what find() names, again and again, while a with-block runs; at most so often, for a busy machine to come to an end."""

    def __init__(self, find, most: int = 60):
        self.find = find
        self.most = most
        self.chance = random.Random(1)
        self.ended = threading.Event()
        self.killed = 0
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while self.killed < self.most and not self.ended.wait(self.chance.uniform(0.01, 0.15)):
            pids = self.find()
            if pids:
                try:
                    os.kill(self.chance.choice(pids), signal.SIGKILL)
                    self.killed += 1
                except ProcessLookupError:
                    pass

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def conductors(queue) -> list[int]:
    pid = queue.conductor()
    return [pid] if pid else []


def processes_of_jobs(queue) -> list[int]:
    """Keepers and commands: who has an attempt's file open, but not the conductor."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                files = [os.readlink(file) for file in (process / "fd").iterdir()]
            except OSError:
                continue
            if any(file.startswith(f"{queue.state}/jobs/") and "/attempt-" in file for file in files):
                found.append(int(process.name))
    return [pid for pid in found if pid not in conductors(queue)]
