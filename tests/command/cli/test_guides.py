"""Every block and command line of the guides, carried out."""

import json
import pathlib
import shutil
import socket

import pytest
from free_port import free_port
from guide_blocks import BLOCKS, LAUNCHES

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "unit/spec/fixtures/guides"
A100S = """gpus:
  - {{count: {count}, name: NVIDIA A100-SXM4-40GB, memory_total: 40536MiB, memory_used: 0, compute_capability: "8.0", utilization: 0}}
"""
# In one piece, so that the lines of ranks do not run into each other.
SCRIPT = "import os\nos.write(1, 'rank {RANK} of {WORLD_SIZE} {MASTER_PORT}\\n'.format(**os.environ).encode())\n"


@pytest.fixture(scope="module")
def small_model(tmp_path_factory, new_muster) -> pathlib.Path:
    """A cache that is filled, with a model of muster's own in it: its shape and tokenizer, without weights."""
    cache = tmp_path_factory.mktemp("cache")
    muster = new_muster(tmp_path_factory.mktemp("first"))
    assert muster("train", "--device", "cpu", "--dry-run", MUSTER_CACHE=str(cache)).returncode == 0
    return cache / "models/llama-0.6m-1"


@pytest.fixture
def desk(muster, small_model, tmp_path):
    """muster in a folder where a user has prompts and the guides' files, with a queue of its own."""
    shutil.copytree(FIXTURES, tmp_path / "blocks")
    (tmp_path / "prompts.txt").write_text("1+1=\n2+2=\n")
    (tmp_path / "train.py").write_text(SCRIPT)
    shutil.copy(FIXTURES.parents[4] / "examples/trajectories.jsonl", tmp_path)
    muster.environment["MUSTER_CACHE"] = str(small_model.parents[1])
    muster.environment["MUSTER_STATE"] = str(tmp_path / "state")
    muster.inventory("gpus: []\n")
    return muster


def told(result) -> str:
    return result.stdout + result.stderr


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_of_the_guides_does_what_it_says_or_is_refused_for_what_is_missing(desk, small_model, name):
    block = BLOCKS[name]
    if block.gpus:
        desk.inventory(A100S.format(count=block.gpus))
    words = [word.replace("{blocks}", "blocks").replace("{model}", str(small_model)).replace("{prompts}", "prompts.txt") for word in block.words]
    result = desk(*words, **block.variables)
    assert result.returncode == block.exit_code, told(result)
    for part in block.says:
        assert part in told(result)
    if block.plan is not None:
        plan = json.loads(result.stdout)
        plan["gpus"] = [rank["gpu"] for rank in plan["ranks"]]
        assert {key: plan[key] for key in block.plan} == block.plan


def test_every_file_of_the_guides_is_among_the_blocks():
    named = {word for block in BLOCKS.values() for word in block.words if word.startswith("{blocks}/")}
    assert named == {f"{{blocks}}/{file.name}" for file in FIXTURES.iterdir()}


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_torchrun_line_of_the_guides_starts_its_ranks(desk, name):
    options, ranks = LAUNCHES[name]
    port = free_port()
    result = desk("launch", *(word.format(port=port) for word in options), "train.py")
    assert result.returncode == 0, told(result)
    lines = [line for line in result.stdout.splitlines() if "rank " in line]
    assert sorted(line.split("rank ")[1].split()[0] for line in lines) == [str(rank) for rank in range(ranks)]
    if "--master_port={port}" in options:
        assert all(line.endswith(str(port)) for line in lines)


def test_two_hosts_of_the_guides_meet_at_the_address_and_port_that_they_name(desk):
    endpoint = ("--nnodes=2", "--master_addr=127.0.0.1", f"--master_port={free_port()}")
    hosts = [desk.start("launch", "--nproc_per_node=4", f"--node_rank={number}", *endpoint, "train.py") for number in (0, 1)]
    texts = [host.communicate(timeout=120) for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0], texts
    assert all(f"rank {rank} of 8" in texts[rank // 4][0] for rank in range(8))


def test_the_ranks_of_one_host_meet_at_the_port_that_is_named(desk):
    words = ("train", "--device", "cpu", "--ranks", "2", "training.max_steps=1", "training.batch_size=4")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = desk(*words, f"distributed.master_port={port}")
        assert refused.returncode != 0 and f"port {port} is in use" in refused.stderr, told(refused)
    done = desk(*words, f"distributed.master_port={free_port()}")
    assert done.returncode == 0, told(done)


def test_gpu_list_chooses_the_gpus_of_a_launch(desk):
    desk.inventory(A100S.format(count=8))
    words = ("launch", "--no-python", "/bin/sh", "-c", 'echo "$RANK ${CUDA_VISIBLE_DEVICES} [$GPU_LIST]"')
    chosen = desk(*words, GPU_LIST="4,5")
    assert sorted(chosen.stdout.splitlines()) == ["0 4,5 []", "1 4,5 []"], told(chosen)
    overruled = desk(*words[:1], "--gpu-ids", "7", *words[1:], GPU_LIST="4,5")
    assert overruled.stdout.splitlines() == ["0 7 [4,5]"], told(overruled)
