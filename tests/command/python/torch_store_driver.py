"""torch's store, told what to do one JSON object a line: the twin of tests/programs/store_driver.cpp.

Values are in hexadecimal digits. Each order is answered with {"result": ...} or {"error": "..."}. Beyond what its twin
does it can serve a store, count from several threads, and take part in a process group.
"""

import json
import os
import sys
import threading
from datetime import timedelta

import torch
import torch.distributed as dist

DEFAULT = timedelta(seconds=60)


class Driver:
    def __init__(self):
        self.store = None
        self.served = None

    # ---- where the store is ----

    def serve(self, order):
        self.served = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=DEFAULT, wait_for_workers=False)
        return self.served.port

    def stop_serving(self, order):
        self.served = None

    def connect(self, order):
        self.store = dist.TCPStore(
            order["host"], order["port"], is_master=False, timeout=DEFAULT, wait_for_workers=False
        )

    # ---- what the twin does, too ----

    def set(self, order):
        self.store.set(order["key"], bytes.fromhex(order["value"]))

    def get(self, order):
        return self.store.get(order["key"]).hex()

    def add(self, order):
        return self.store.add(order["key"], order["amount"])

    def compare_set(self, order):
        # torch takes text here; what is not ASCII would be encoded.
        expected, desired = (bytes.fromhex(order[name]).decode("ascii") for name in ("expected", "desired"))
        return self.store.compare_set(order["key"], expected, desired).hex()

    def append(self, order):
        self.store.append(order["key"], bytes.fromhex(order["value"]))

    def delete_key(self, order):
        return self.store.delete_key(order["key"])

    def multi_get(self, order):
        return [value.hex() for value in self.store.multi_get(order["keys"])]

    def multi_set(self, order):
        entries = order["entries"]
        self.store.multi_set(list(entries), [bytes.fromhex(value) for value in entries.values()])

    def check(self, order):
        return self.store.check(order["keys"])

    def wait(self, order):
        self.store.wait(order["keys"], timedelta(milliseconds=order.get("milliseconds", 60000)))

    def list_keys(self, order):
        return self.store.list_keys()

    def num_keys(self, order):
        return self.store.num_keys()

    def queue_push(self, order):
        self.store.queue_push(order["key"], bytes.fromhex(order["value"]))

    def queue_pop(self, order):
        self.store.set_timeout(timedelta(milliseconds=order.get("milliseconds", 60000)))
        try:
            return self.store.queue_pop(order["key"], order.get("block", False)).hex()
        finally:
            self.store.set_timeout(DEFAULT)

    def queue_len(self, order):
        return self.store.queue_len(order["key"])

    def barrier(self, order):
        self.store.barrier(order["key"], order["count"], timedelta(milliseconds=order.get("milliseconds", 60000)))

    # ---- and what it does not ----

    def add_from_threads(self, order):
        def add():
            store = self.store.clone()
            for _ in range(order["times"]):
                store.add(order["key"], 1)

        threads = [threading.Thread(target=add) for _ in range(order["threads"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def all_reduce(self, order):
        """One rank of a process group that meets at the store, as under a launcher that owns it. Sums 1 + rank."""
        rank, world_size = order["rank"], order["world_size"]
        os.environ.update(
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(order["port"]),
            RANK=str(rank),
            WORLD_SIZE=str(world_size),
            TORCHELASTIC_USE_AGENT_STORE="True",
            TORCHELASTIC_RESTART_COUNT=str(order.get("restart_count", 0)),
        )
        dist.init_process_group(
            "gloo", init_method=order["init_method"], rank=rank, world_size=world_size, timeout=DEFAULT
        )
        try:
            total = torch.tensor([1.0 + rank])
            dist.all_reduce(total)
            gathered = [None] * world_size
            dist.all_gather_object(gathered, {"rank": rank})
            dist.barrier()
            return [total.item(), [entry["rank"] for entry in gathered]]
        finally:
            dist.destroy_process_group()


def main():
    orders, answers = sys.stdin, os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever libraries print is no answer
    driver = Driver()
    for line in orders:
        order = json.loads(line)
        try:
            answer = {"result": getattr(driver, order["operation"])(order)}
        except RuntimeError as failure:  # torch's own errors are all of this kind
            answer = {"error": str(failure).splitlines()[0]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
