import json
import os
from pathlib import Path

import pytest
from machine import python_output
from rank_group import RankGroup

import muster
from muster import _slurm
from muster._rank_facts import RankFacts, rank_from

TABLE = Path(__file__).resolve().parents[2] / "unit/launch/fixtures" / "rank_environments.json"
CASES = json.loads(TABLE.read_text())["cases"]


@pytest.fixture(autouse=True)
def no_launcher():
    for name in [name for name in os.environ if name.startswith("SLURM_")] + ["RANK", "WORLD_SIZE", "ENVIRONMENT"]:
        os.environ.pop(name, None)


@pytest.mark.parametrize("case", [case for case in CASES if "means" in case], ids=lambda case: case["name"])
def test_an_environment_means_the_rank_that_the_table_says(case):
    means = {name: value for name, value in case["means"].items() if name != "local_world_size"}
    assert rank_from(case["environment"]) == RankFacts(**means)


@pytest.mark.parametrize("case", [case for case in CASES if "error" in case], ids=lambda case: case["name"])
def test_an_environment_that_cannot_be_meant_is_an_error_that_names_the_variable(case):
    with pytest.raises(ValueError) as failure:
        rank_from(case["environment"])
    for part in case["error"]:
        assert part in str(failure.value)


def helpers():
    return (
        muster.is_distributed_available(),
        muster.get_rank(),
        muster.get_world_size(),
        muster.get_local_rank(),
        muster.is_main_process(),
    )


def test_without_a_launch_this_process_is_the_first_and_only():
    assert helpers() == (False, 0, 1, 0, True)


def test_several_visible_gpus_make_distributed_work_possible_without_a_launch(machine):
    machine.has_a100s(4)
    assert helpers() == (True, 0, 1, 0, True)
    machine.has_a100s(1)
    assert not muster.is_distributed_available()


def test_below_a_launcher_the_environment_is_read_anew_on_each_call():
    os.environ.update(RANK="5", WORLD_SIZE="8", LOCAL_RANK="1")
    assert helpers() == (True, 5, 8, 1, False)
    os.environ.update(RANK="0", LOCAL_RANK="0")
    assert helpers() == (True, 0, 8, 0, True)


def test_a_task_of_srun_uses_the_gpu_at_its_place(machine):
    machine.has_a100s(4)
    os.environ.update(SLURM_PROCID="6", SLURM_LOCALID="2", SLURM_NTASKS="8", SLURM_STEP_ID="0")
    assert muster.get_optimal_device() == "cuda:2"


def test_everything_works_as_one_process_where_torch_is_not_installed():
    output = python_output(
        "import sys\n"
        "sys.modules['torch'] = None  # importing it is an ImportError\n"
        "import muster\n"
        "print(muster.get_rank(), muster.get_world_size(), muster.is_main_process(), muster.init_distributed())\n"
        "print(muster.all_reduce_scalar(3), muster.reduce_dict({'loss': 2}), muster.broadcast_object([1]))\n"
        "muster.barrier(); muster.cleanup_distributed()\n"
        "with muster.distributed_context() as config: print(config.backend)\n"
    )
    assert output.splitlines() == ["0 1 True False", "3.0 {'loss': 2.0} [1]", "None"]


OWN_GROUP = """
import torch.distributed as distributed
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
os.environ.update(RANK="5", WORLD_SIZE="8")
inside = [muster.get_rank(), muster.get_world_size(), muster.is_distributed_available(), muster.init_distributed()]
muster.barrier()
muster.cleanup_distributed()
report(inside=inside, after=[muster.get_rank(), muster.get_world_size(), distributed.is_initialized()])
"""


def test_a_group_that_is_initialised_has_the_last_word_whoever_made_it():
    with RankGroup(OWN_GROUP, [{}]) as process:
        assert process.report(0) == {"inside": [0, 1, True, True], "after": [5, 8, False]}


@pytest.mark.parametrize(
    "hosts, first",
    [
        ("n1", "n1"),
        ("n1,n2", "n1"),
        ("gpu[07-12,15]", "gpu07"),
        ("gpu[7,9],login1", "gpu7"),
        ("rack[1-2]-node[03-04]", "rack1-node03"),
        ("a.example.org,b.example.org", "a.example.org"),
    ],
)
def test_the_tasks_of_a_step_meet_on_its_first_machine(hosts, first):
    assert _slurm.first_host({"SLURM_PROCID": "3", "SLURM_STEP_NODELIST": hosts}) == first


def test_steps_and_jobs_meet_on_ports_of_their_own():
    def port(job, step):
        return _slurm.port_of_step({"SLURM_PROCID": "0", "SLURM_JOB_ID": str(job), "SLURM_STEP_ID": str(step)})

    ports = [port(job, step) for job in range(700, 720) for step in range(16)]
    assert len(set(ports)) == len(ports)
    assert all(1024 < chosen < 32768 for chosen in ports)
    assert _slurm.port_of_step({}) is None
