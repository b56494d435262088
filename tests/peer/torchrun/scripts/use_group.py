"""Uses the process group and its store in the usual ways, twice in one process, and writes what it saw to seen-<rank>.json."""

import datetime
import json
import os

import torch
import torch.distributed as distributed

torch.set_num_threads(1)


def begin(number: int) -> None:
    """The first time by env://, the second time with a place of its own in the same store.

    Gloo leaves its addresses in the store, and a second env:// may read the old ones: a race, under torchrun as well.
    """
    timeout = datetime.timedelta(seconds=60)
    if number == 1:
        distributed.init_process_group("gloo", init_method="env://", timeout=timeout)
        return
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = distributed.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, False, timeout)
    again = distributed.PrefixStore("again", store)
    distributed.init_process_group("gloo", store=again, rank=rank, world_size=size, timeout=timeout)


def once(number: int) -> dict:
    begin(number)
    rank, size = distributed.get_rank(), distributed.get_world_size()
    seen: dict = {"rank": rank, "size": size}

    total = torch.tensor([rank + 1.0])
    distributed.all_reduce(total)
    seen["total"] = total.item()

    alone = [distributed.new_group([member]) for member in range(size)][rank]
    own = torch.tensor([rank + 1.0])
    distributed.all_reduce(own, group=alone)
    seen["own"] = own.item()

    distributed.barrier()
    gathered = [None] * size
    distributed.all_gather_object(gathered, {"rank": rank, "text": "ä" * rank})
    seen["gathered"] = gathered
    words = [f"from rank 0, time {number}", {"a": [1, 2]}] if rank == 0 else [None, None]
    distributed.broadcast_object_list(words, src=0)
    seen["words"] = words
    scattered = [None]
    distributed.scatter_object_list(scattered, [f"for {member}" for member in range(size)] if rank == 0 else None, src=0)
    seen["scattered"] = scattered

    store = distributed.PrefixStore(f"mine/{number}", distributed.distributed_c10d._get_default_store())
    store.set(f"key/{rank}", f"value of {rank}")
    store.wait([f"key/{member}" for member in range(size)], datetime.timedelta(seconds=30))
    seen["values"] = [store.get(f"key/{member}").decode() for member in range(size)]
    store.add("count", rank + 1)
    distributed.barrier()
    seen["count"] = store.add("count", 0)
    seen["missing"] = store.check(["no such key"])
    big = bytes(range(256)) * 4096
    if rank == 0:
        store.set("big", big)
        seen["swapped"] = store.compare_set("swap", "", "first").decode()
    distributed.barrier()
    seen["big"] = store.get("big") == big
    seen["kept"] = store.compare_set("swap", "other", "second").decode()
    store.multi_set([f"many/{rank}/0", f"many/{rank}/1"], ["a", "b"])
    distributed.barrier()
    seen["many"] = [value.decode() for value in store.multi_get(["many/0/0", "many/1/1"])]
    store.append("log", "x")
    distributed.barrier()
    seen["log"] = store.get("log").decode()
    try:
        store.wait(["never"], datetime.timedelta(milliseconds=50))
    except distributed.DistStoreError:
        seen["never"] = "timed out"
    distributed.barrier()
    if rank == 0:
        seen["deleted"] = [store.delete_key("big"), store.delete_key("big")]
    distributed.monitored_barrier()
    return seen


first = once(1)
distributed.destroy_process_group()
second = once(2)
with open(f"seen-{os.environ['RANK']}.json", "w") as file:
    json.dump([first, second], file)
distributed.barrier()
os._exit(0)  # torch's threads of gloo now and then abort a process that takes its group down
