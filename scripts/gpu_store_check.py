"""Every operation of this torch's store client on muster's store, and a Gloo group over it. Run by gpu_host_check.sh:

muster launch --nproc-per-node 4 --device cpu scripts/gpu_store_check.py
"""

import datetime
import os

import torch
import torch.distributed

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = torch.distributed.TCPStore(
    os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), None, False, datetime.timedelta(seconds=30)
)
mine = f"check/{rank}"
store.set(mine, "a")
store.append(mine, "b")
assert store.get(mine) == b"ab"
assert store.compare_set(mine, "ab", "c") == b"c" and store.compare_set(mine, "no", "d") == b"c"
assert store.add(f"sum/{rank}", 2) == 2 and store.add(f"sum/{rank}", 3) == 5
store.multi_set([f"m/{rank}/0", f"m/{rank}/1"], ["x", "y"])
assert store.multi_get([f"m/{rank}/0", f"m/{rank}/1"]) == [b"x", b"y"]
assert store.check([mine]) and not store.check([f"absent/{rank}"])
assert store.delete_key(f"m/{rank}/0") and not store.delete_key(f"m/{rank}/0")
try:
    store.wait([f"absent/{rank}"], datetime.timedelta(milliseconds=100))
    raise AssertionError("a wait for an absent key ended")
except torch.distributed.DistStoreError:
    pass
assert store.get(mine) == b"c"  # the connection is good after a wait that was cancelled
store.queue_push(f"q/{rank}", "1")
store.queue_push(f"q/{rank}", "2")
assert store.queue_len(f"q/{rank}") == 2 and store.queue_pop(f"q/{rank}") == b"1"
store.wait([f"check/{other}" for other in range(size)], datetime.timedelta(seconds=30))
assert store.num_keys() > 0
if hasattr(store, "list_keys"):
    assert mine in store.list_keys()
torch.distributed.init_process_group("gloo")
value = torch.tensor([float(rank + 1)])
torch.distributed.all_reduce(value)
assert value.item() == size * (size + 1) / 2
torch.distributed.destroy_process_group()
if rank == 0:
    print(f"torch {torch.__version__}: every store operation and a Gloo sum over {size} ranks are right")
