"""Collectives of real groups, against sums made here, and failures that name the missing rank."""

import math
import os
import signal
import socket

import pytest
from free_port import free_port
from rank_group import RankGroup, launcher_environment

import muster
from muster import _slurm


def launch(size, **more):
    port = free_port()
    return [{**launcher_environment(rank, size, port), **more} for rank in range(size)]


EVERYTHING = """
wait_at_gate()
assert muster.init_distributed(timeout_minutes=3) and muster.init_distributed()
rank, size = muster.get_rank(), muster.get_world_size()

values = torch.tensor([[1.5, -2.0], [0.25, 3.0]]) * (rank + 1)
before = values.clone()
whole = torch.tensor([rank, 2**53 + 1])
numbers = {
    "sum": muster.all_reduce_sum(values).tolist(),
    "mean": muster.all_reduce_mean(values).tolist(),
    "transposed": muster.all_reduce_sum(values.t()).tolist(),
    "min": muster.all_reduce(values, "min").tolist(),
    "max": muster.all_reduce(values, op="max").tolist(),
    "product": muster.all_reduce(torch.tensor(rank + 1.0), "product").item(),
    "whole sum": muster.all_reduce_sum(whole).tolist(),
    "whole sum type": str(muster.all_reduce_sum(whole).dtype),
    "whole mean": muster.all_reduce_mean(torch.tensor([rank, 100], dtype=torch.int8)).tolist(),
    "whole mean type": str(muster.all_reduce_mean(torch.tensor(rank)).dtype),
    "half mean": muster.all_reduce_mean(torch.full((2,), 60000.0, dtype=torch.float16)).tolist(),
    "gradient": muster.all_reduce_sum(torch.ones(1, requires_grad=True)).requires_grad,
    "scalar": muster.all_reduce_scalar(0.1 * (rank + 1)),
    "scalar sum": muster.all_reduce_scalar(torch.tensor(rank), op="sum"),
    "gathered": [part.tolist() for part in muster.all_gather_tensors(values)],
    "unchanged": torch.equal(values, before),
}
gathered = muster.gather_tensors(torch.tensor([rank, 7]), dst=size - 1)
numbers["gathered at the last"] = None if gathered is None else [part.tolist() for part in gathered]

target = torch.full((2, 3), float(rank)).t()
numbers["broadcast is the argument"] = muster.broadcast(target, src=size - 1) is target
numbers["broadcast"] = target.tolist()
numbers["object"] = muster.broadcast_object({"from": rank}, src=size - 1)

entries = {"loss": rank + 0.5, "count": torch.tensor([rank, 1]), "score": torch.tensor(2.0 * rank, dtype=torch.float16)}
if rank % 2:
    entries = dict(reversed(entries.items()))
means = muster.reduce_dict(entries)
numbers["dict mean"] = {key: means[key] if key == "loss" else means[key].tolist() for key in means}
sums = muster.reduce_dict(entries, average=False)
numbers["dict sum"] = [sums["loss"], sums["count"].tolist(), str(sums["count"].dtype), str(sums["score"].dtype)]
numbers["dict order"] = list(sums) == list(entries)

numbers["disagreements"] = [
    caught(lambda: muster.all_gather_tensors(torch.zeros(2 + (rank == 0)))),
    caught(lambda: muster.reduce_dict({"loss": 1.0, "extra" if rank == 0 else "other": 2.0})),
    caught(lambda: muster.barrier() if rank == 0 else muster.all_reduce_scalar(1.0)),
    caught(lambda: muster.broadcast_object(sys.stdout, src=0)),
]
muster.barrier()  # the group is still good
numbers["out of range"] = caught(lambda: muster.broadcast(target, src=size))
muster.cleanup_distributed()

assert muster.init_distributed(timeout_minutes=3)  # a second group of the same processes
numbers["again"] = muster.all_reduce_scalar(rank, "sum")
muster.cleanup_distributed()
report(**numbers)
"""


@pytest.fixture(scope="module", params=[1, 2, 4], ids=lambda size: f"{size} ranks")
def answers(request):
    with RankGroup(EVERYTHING, launch(request.param)) as group:
        group.open_gate()
        reports = group.reports()
        assert group.exit_codes() == [0] * request.param
    return reports


VALUES = [[1.5, -2.0], [0.25, 3.0]]


def scaled(factor):
    return [[value * factor for value in row] for row in VALUES]


def test_reductions_equal_serial_sums_on_every_rank(answers):
    size = len(answers)
    ranks = range(size)
    total = sum(rank + 1 for rank in ranks)
    for answer in answers:
        assert answer["sum"] == scaled(total)
        assert answer["transposed"] == [list(row) for row in zip(*scaled(total))]
        assert answer["mean"] == scaled(total / size)
        assert answer["min"] == [[min(value * (rank + 1) for rank in ranks) for value in row] for row in VALUES]
        assert answer["max"] == [[max(value * (rank + 1) for rank in ranks) for value in row] for row in VALUES]
        assert answer["product"] == math.factorial(size)
        assert answer["scalar"] == pytest.approx(0.1 * total / size, abs=1e-15)
        assert answer["scalar sum"] == sum(ranks)
        assert answer["again"] == sum(ranks)


def test_integers_are_summed_exactly_and_their_mean_is_of_floating_type(answers):
    size = len(answers)
    for answer in answers:
        assert answer["whole sum"] == [sum(range(size)), size * (2**53 + 1)]
        assert answer["whole sum type"] == "torch.int64"
        assert answer["whole mean"] == [sum(range(size)) / size, 100.0]
        assert answer["whole mean type"] == "torch.float32"


def test_the_mean_of_half_precision_does_not_overflow_on_the_way(answers):
    assert all(answer["half mean"] == [60000.0, 60000.0] for answer in answers)


def test_tensors_are_gathered_in_the_order_of_the_ranks(answers):
    size = len(answers)
    for rank, answer in enumerate(answers):
        assert answer["gathered"] == [scaled(other + 1) for other in range(size)]
        expected = [[other, 7] for other in range(size)] if rank == size - 1 else None
        assert answer["gathered at the last"] == expected


def test_a_broadcast_overwrites_its_argument_and_nothing_else_does(answers):
    last = float(len(answers) - 1)
    for answer in answers:
        assert answer["broadcast"] == [[last] * 2] * 3
        assert answer["broadcast is the argument"] is True
        assert answer["object"] == {"from": last}
        assert answer["unchanged"] is True
        assert answer["gradient"] is False


def test_a_dict_is_reduced_entry_by_entry_whatever_its_order(answers):
    size = len(answers)
    mean = sum(range(size)) / size
    for answer in answers:
        assert answer["dict mean"] == {"loss": mean + 0.5, "count": [mean, 1.0], "score": 2 * mean}
        assert answer["dict sum"] == [size * (mean + 0.5), [sum(range(size)), size], "torch.int64", "torch.float16"]
        assert answer["dict order"] is True


def test_ranks_that_disagree_are_told_what_each_of_them_brought(answers):
    size = len(answers)
    others = "rank 1" if size == 2 else f"ranks 1-{size - 1}"
    for rank, answer in enumerate(answers):
        shapes, keys, functions, pickled = answer["disagreements"]
        if size > 1:
            gather, reduce = "all_gather_tensors of float32", "reduce_dict(mean) of"
            assert f"rank 0: {gather} (3,); {others}: {gather} (2,)" in shapes["text"]
            assert f"rank 0: {reduce} extra, loss; {others}: {reduce} loss, other" in keys["text"]
            assert f"rank 0: barrier; {others}: all_reduce_scalar(mean)" in functions["text"]
            assert {shapes["type"], keys["type"], functions["type"]} == {"ValueError"}
        else:
            assert [shapes, keys, functions] == [None, None, None]
        assert pickled["type"] == ("TypeError" if rank == 0 else "ValueError")
        assert answer["out of range"]["text"].startswith(f"src={size}, but there are {size} ranks")


# The store is served by a process of its own, as a launcher does.
STORE = """
store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
report(port=store.port)
wait_at_gate()
"""

STOPPED = """
wait_at_gate()
assert muster.init_distributed(timeout_minutes=0.2)
rank = muster.get_rank()
muster.all_reduce_scalar(1.0)
if rank == 2:
    os.kill(os.getpid(), signal.SIGSTOP)
report(failure=caught(lambda: muster.all_reduce_sum(torch.ones(3))))
muster.cleanup_distributed()

wait_at_gate()
assert muster.init_distributed(timeout_minutes=0.2)
def stop_inside():
    with muster._roll_call.current_roll_call().operation("a test"):
        if rank == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        torch.distributed.barrier()
report(failure=caught(stop_inside))
"""


def test_a_timeout_names_the_rank_that_is_stopped():
    with RankGroup(STORE, [{}]) as store:
        port = store.report(0)["port"]
        environments = [
            {**launcher_environment(rank, 3, port), "TORCHELASTIC_USE_AGENT_STORE": "True"} for rank in range(3)
        ]
        with RankGroup(STOPPED, environments) as group:
            group.open_gate()
            for rank, report in enumerate(group.reports([0, 1])):
                failure = report["failure"]
                assert failure["missing"] == [2]
                assert failure["is_timeout"] is True
                assert "all_reduce(sum) of float32 (3,) (operation 2) timed out after" in failure["text"]
                assert f"on rank {rank}: rank 2 did not arrive (rank 2: last at operation 1," in failure["text"]

            group.signal(2, signal.SIGCONT)
            late = group.report(2)["failure"]
            assert late["is_timeout"] is True
            assert "this rank came too late: ranks 0-1 had given up waiting" in late["text"]

            # The same processes meet again, and this time one stops in the middle.
            group.open_gate()
            for report in group.reports([0, 2]):
                assert report["failure"]["missing"] == [1]
                assert "rank 1 arrived and stopped inside it, or ended" in report["failure"]["text"]


ENDED = """
wait_at_gate()
assert muster.init_distributed()  # the default: 30 minutes
assert muster.get_world_size() == 2
muster.barrier()
if muster.get_rank() == 1:
    os._exit(0)
report(failure=caught(muster.barrier))
"""


def free_slurm_job():
    """A job whose step 0 meets on a port that is free."""
    for job in range(os.getpid(), os.getpid() + 700):
        port = _slurm.port_of_step({"SLURM_PROCID": "0", "SLURM_JOB_ID": str(job)})
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return str(job)
    raise AssertionError("no port is free")


def test_tasks_of_srun_meet_without_an_address_and_notice_at_once_that_one_has_ended():
    job = {"SLURM_JOB_ID": free_slurm_job(), "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "localhost"}
    tasks = [{**job, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), "SLURM_NTASKS": "2"} for rank in range(2)]
    with RankGroup(ENDED, tasks) as group:
        group.open_gate()
        failure = group.report(0)["failure"]
    assert failure["missing"] == [1]
    assert failure["type"] == "CollectiveError"
    assert "rank 1 did not arrive (rank 1: last at operation 1, barrier)" in failure["text"]


ABSENT = """
wait_at_gate()
# Rank 1 would wait far longer: it learns from rank 0, which serves the store, and which ends right after.
failure = caught(lambda: muster.init_distributed(timeout_minutes=0.2 if muster.is_main_process() else 30))
report(failure=failure, initialised=torch.distributed.is_initialized())
os._exit(0)
"""


def test_joining_names_the_ranks_that_did_not_come():
    with RankGroup(ABSENT, launch(3)[:2]) as group:
        group.open_gate()
        for rank, report in enumerate(group.reports()):
            assert report["failure"]["missing"] == [2]
            assert f"on rank {rank} of 3: rank 2 did not arrive" in report["failure"]["text"]
            assert report["initialised"] is False


ALONE = """
value = torch.tensor([1.0, 2.0])
results = [
    muster.all_reduce_sum(value),
    muster.all_reduce_mean(value),
    *muster.gather_tensors(value),
    *muster.all_gather_tensors(value),
    muster.reduce_dict({"a": value})["a"],
]
equal = all(torch.equal(result, value) for result in results)
for result in results:
    result.add_(1)
sums = muster.reduce_dict({"number": 2, "tensor": torch.tensor(3)}, average=False)
report(
    joined=muster.init_distributed(),
    equal=equal,
    value=value.tolist(),
    broadcast=muster.broadcast(value) is value,
    whole_mean=str(muster.all_reduce_mean(torch.tensor(3))),
    sums=str(sums),
)
"""


def test_without_a_launch_everything_is_identity_on_copies():
    with RankGroup(ALONE, [{}]) as alone:
        assert alone.report(0) == {
            "joined": False,
            "equal": True,
            "value": [1.0, 2.0],
            "broadcast": True,
            "whole_mean": "tensor(3.)",
            "sums": "{'number': 2.0, 'tensor': tensor(3)}",
        }


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: muster.all_reduce_scalar(1.0, op="median"), ValueError, "sum, mean, min, max, product"),
        (lambda: muster.all_reduce_scalar("1"), TypeError, "not a number"),
        (lambda: muster.all_reduce_scalar(2**53 + 1), ValueError, "does not fit into a float"),
        (lambda: muster.all_reduce_sum(1.0), TypeError, "all_reduce_scalar"),
        (lambda: muster.reduce_dict({"loss": "low"}), TypeError, "loss='low' is neither a number nor a tensor"),
        (lambda: muster.broadcast_object(1, src=1), ValueError, "src=1, but there are 1 ranks"),
        (lambda: muster.init_distributed(timeout_minutes=0), ValueError, "timeout_minutes=0"),
        (lambda: muster.init_distributed(timeout_minutes="30"), TypeError, "timeout_minutes='30'"),
        (lambda: muster.init_distributed(rank=1), ValueError, "WORLD_SIZE is not set"),
        (lambda: muster.init_distributed(rank=-1, world_size=2), ValueError, "rank=-1"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


LOST = """
report(address=caught(muster.init_distributed), backend=caught(lambda: muster.init_distributed("nccl")))
"""


def test_a_rank_that_cannot_join_is_told_why():
    with RankGroup(LOST, [{"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}]) as lost:
        report = lost.report(0)
    assert "MASTER_ADDR and MASTER_PORT not set: rank 1 of 2 cannot find the others" in report["address"]["text"]
    assert 'backend="nccl" needs a GPU, and torch sees none' in report["backend"]["text"]


LATE_DTYPE = """
wait_at_gate()
muster.init_distributed(timeout_minutes=3)
report(failure=caught(lambda: muster.all_reduce_sum(torch.ones(2, dtype=torch.int16))))
"""


def test_an_error_of_torch_itself_blames_no_rank():
    with RankGroup(LATE_DTYPE, launch(2)) as group:
        group.open_gate()
        for report in group.reports():
            assert report["failure"]["type"] == "RuntimeError"
            assert report["failure"]["missing"] is None
