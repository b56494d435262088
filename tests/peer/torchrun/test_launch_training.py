"""Scripts written for torchrun and accelerate train unchanged under muster launch, to the last bit."""

import json

import pytest
from free_port import free_port
from launchers import SCRIPTS

DDP = SCRIPTS / "train_ddp.py"
FACTS = SCRIPTS / "report_facts.py"
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def weights(outcome) -> list[bytes]:
    assert outcome.code == 0, outcome.errors
    return [(outcome.folder / f"weights-{rank}.bin").read_bytes() for rank in (0, 1)]


@pytest.fixture(scope="module")
def trained(both):
    return both("--nproc-per-node", 2, DDP, variables=ONE_THREAD)


def test_training_ends_with_the_same_weights(trained):
    (ours, ours_too), (theirs, _) = weights(trained.muster), weights(trained.torchrun)
    assert ours == ours_too == theirs and len(ours) > 2000


def test_training_that_fails_midway_goes_on_from_its_checkpoint_to_the_same_weights(trained, launchers):
    arguments = ["--nproc-per-node", 2, "--max-restarts", 1, DDP, "--fail-at", 4]
    outcome = launchers.muster(arguments, ONE_THREAD).outcome()
    assert weights(outcome) == weights(trained.torchrun)
    assert [(outcome.folder / f"first-{rank}").read_text() for rank in (0, 1)] == ["4\n", "4\n"]


def not_aborted(start):
    """The outcome of a run whose first group was taken down without an abort in torch's own threads, which now and then happens."""
    for _ in range(3):
        outcome = start(["--nproc-per-node", 2, SCRIPTS / "use_group.py"], ONE_THREAD).outcome()
        if "SIGABRT" not in outcome.errors:
            break
    return outcome


def test_groups_collectives_and_the_store_work_twice_in_one_process(launchers):
    outcomes = [not_aborted(launchers.torchrun), not_aborted(launchers.muster)]
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes[0].errors + outcomes[1].errors
    for rank in (0, 1):
        of_torchrun, of_muster = (json.loads((outcome.folder / f"seen-{rank}.json").read_text()) for outcome in outcomes)
        assert of_muster == of_torchrun
        assert [time["total"] for time in of_muster] == [3.0, 3.0] and of_muster[1]["never"] == "timed out"


def aborted_at_exit(outcome) -> bool:
    """PyTorch's own teardown aborts now and then, under torchrun as well, in scripts that have done all their work."""
    return outcome.code == 1 and "SIGABRT" in outcome.errors and all((outcome.folder / f"result-{rank}.json").exists() for rank in (0, 1))


def test_a_trainer_of_transformers_runs_unchanged(launchers):
    variables = ONE_THREAD | {"HF_HUB_OFFLINE": "1", "HF_HOME": "{folder}/hub", "CUDA_VISIBLE_DEVICES": ""}
    outcome = launchers.muster(["--nproc-per-node", 2, SCRIPTS / "train_transformers.py"], variables).outcome()
    assert outcome.code == 0 or aborted_at_exit(outcome), outcome.errors
    first, second = (json.loads((outcome.folder / f"result-{rank}.json").read_text()) for rank in (0, 1))
    assert first["loss"] == second["loss"] > 0
    assert all(result["weights_equal"] and result["weights_moved"] for result in (first, second))
    assert (first["steps"], first["world_size"], first["process_index"], second["process_index"]) == (4, 2, 0, 1)


@pytest.mark.parametrize("dash", ["_", "-"])
def test_accelerates_spelling_of_the_options_is_understood(launchers, dash):
    port = free_port()
    options = ["--num_processes", 2, "--num_machines=1", "--machine_rank", 0, "--main_process_port", port]
    outcome = launchers.muster([*(str(word).replace("_", dash) for word in options), FACTS, "--num_processes"]).outcome()
    assert outcome.code == 0, outcome.errors
    facts = outcome.facts()
    assert facts.keys() == {"0-0", "0-1"} and facts["0-0"]["arguments"][1:] == ["--num_processes"]
    assert {rank["environment"]["MASTER_PORT"] for rank in facts.values()} == {str(port)}
