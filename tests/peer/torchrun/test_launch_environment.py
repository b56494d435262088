"""Every rank finds under muster launch what it would find under torchrun, key by key."""

import os
import pty
import re
import sys

import pytest
from free_port import free_port
from launchers import SCRIPTS, Streams

FACTS = SCRIPTS / "report_facts.py"
MAY_DIFFER = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE", "OMP_NUM_THREADS"}
EIGHT_GPUS = "gpus: [{count: 8, memory_total: 40GiB}]\n"


def placed(environment: dict[str, str]) -> tuple[str, ...]:
    """Where the error file lies, random names aside; the folder of the run begins with the run's name."""
    *root, run, attempt, local_rank, name = environment["TORCHELASTIC_ERROR_FILE"].removeprefix("<folder>/").split("/")
    assert run.startswith(environment["TORCHELASTIC_RUN_ID"] + "_"), run
    return (*(folder.split("_")[0] for folder in root), attempt, local_rank, name)


@pytest.fixture(scope="session")
def eight_gpus(tmp_path_factory) -> dict[str, str]:
    """A machine of eight GPUs for muster, which refuses a mask of GPUs that are not there; torchrun never looks."""
    file = tmp_path_factory.mktemp("inventory") / "gpus.yaml"
    file.write_text(EIGHT_GPUS)
    return {"MUSTER_GPUS": str(file)}


def assert_equal_environments(of_torchrun: dict[str, str], of_muster: dict[str, str]) -> None:
    own = {name for name in of_muster.keys() - of_torchrun.keys() if name.startswith("MUSTER_")}
    assert of_muster.keys() - own == of_torchrun.keys()
    differing = {name for name, value in of_torchrun.items() if of_muster[name] != value}
    assert differing <= MAY_DIFFER, {name: (of_torchrun[name], of_muster[name]) for name in differing - MAY_DIFFER}
    assert of_muster["MASTER_PORT"].isdigit()


def assert_equal_processes(of_torchrun: dict, of_muster: dict) -> None:
    def comparable(facts: dict) -> dict:
        kept = {name: value for name, value in facts.items() if name not in ("environment", "descriptors")}
        # A GPU stays leased as long as one rank lives: the ranks hold its lock, and a socket for each. And muster reads the errors of a rank to
        # report its last words: a pipe where torchrun hands on its own stream.
        locks = [path for path in facts["descriptors"].values() if path.startswith("<folder>/leases/")]
        sockets = [number for number, path in facts["descriptors"].items() if path == "socket"]
        assert not locks or len(sockets) == len(locks)
        held = set(sockets) if locks else set()
        descriptors = {
            number: path
            for number, path in facts["descriptors"].items()
            if number not in held and not path.startswith("<folder>/leases/")
        }
        return kept | {"open": sorted(descriptors), "output": descriptors["1"]}

    assert comparable(of_muster) == comparable(of_torchrun)


def assert_equal_ranks(of_torchrun, of_muster, ranks: int, rounds: int = 1) -> None:
    """Facts of two outcomes: all ranks of all rounds are there and see the same."""
    assert of_torchrun.keys() == of_muster.keys() and len(of_muster) == ranks * rounds
    for place, facts in of_torchrun.items():
        assert_equal_environments(facts["environment"], of_muster[place]["environment"])
        assert placed(facts["environment"]) == placed(of_muster[place]["environment"])
        assert_equal_processes(facts, of_muster[place])


def assert_equal_runs(pair, ranks: int, rounds: int = 1) -> None:
    assert (pair.torchrun.code, pair.muster.code) == (0, 0), pair.torchrun.errors + pair.muster.errors
    assert_equal_ranks(pair.torchrun.facts(), pair.muster.facts(), ranks, rounds)


def test_the_warm_torchrun_of_these_tests_does_what_the_command_does(both, launchers):
    arguments = ["--nproc-per-node", 2, FACTS, "--rate", "0.1"]
    cold = launchers.cold_torchrun(arguments).outcome()
    assert cold.code == 0, cold.errors
    assert_equal_ranks(cold.facts(), both(*arguments).torchrun.facts(), 2)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_see_the_same_environment_and_process(both, ranks):
    assert_equal_runs(both("--nproc-per-node", ranks, FACTS, "--rate", "0.1"), ranks)


@pytest.mark.parametrize(
    "options",
    [
        ["--standalone", "--nproc-per-node", "2"],
        ["--standalone", "--nproc_per_node=2", "--rdzv_id", "ignored", "--log_dir", "logs"],
        ["--nproc_per_node", "2", "--max_restarts", "3", "--monitor_interval", "1", "--start_method", "fork"],
        ["--nproc-per", "2", "--max-res=1"],  # an unambiguous beginning is enough
        ["--nproc-per-node", "2", "--role", "trainer"],
        ["--nproc-per-node", "2", "--signals-to-handle", "SIGTERM,SIGUSR1"],
        ["--nproc-per-node", "2", "--rdzv-conf", "timeout=100,join_timeout=60"],
        ["--nproc-per-node", "cpu"],
    ],
    ids=" ".join,
)
def test_options_leave_the_same_mark(both, options):
    pair = both(*options, FACTS)
    assert_equal_runs(pair, len(pair.torchrun.facts()) if "cpu" in options else 2)


def test_a_named_port_and_run_reach_the_ranks(both):
    options = ["--nproc-per-node", 2, "--rdzv-id", "experiment", "--master-port"]
    pair = both(*options, free_port(), FACTS, muster_arguments=[*options, port := free_port(), FACTS])
    assert_equal_runs(pair, 2)
    of_torchrun, of_muster = (outcome.facts()["0-1"]["environment"] for outcome in (pair.torchrun, pair.muster))
    assert of_muster["MASTER_PORT"] == str(port) and of_muster["MASTER_ADDR"] == of_torchrun["MASTER_ADDR"] == "127.0.0.1"
    assert of_muster["TORCHELASTIC_RUN_ID"] == of_torchrun["TORCHELASTIC_RUN_ID"] == "experiment"


def test_a_named_endpoint_is_met_at(both):
    options = ["--nproc-per-node", 2, "--rdzv-backend", "c10d", "--rdzv-id", "experiment", "--rdzv-endpoint"]
    pair = both(*options, f"localhost:{free_port()}", FACTS, muster_arguments=[*options, f"localhost:{free_port()}", FACTS])
    assert_equal_runs(pair, 2)
    for outcome in (pair.torchrun, pair.muster):
        assert {facts["environment"]["TORCHELASTIC_RUN_ID"] for facts in outcome.facts().values()} == {"experiment"}


def test_settings_come_from_the_environment_too(both):
    variables = {"PET_NPROC_PER_NODE": "2", "PET_ROLE": "trainer", "PET_MAX_RESTARTS": "1", "PET_LOG_DIR": "{folder}/logs"}
    pair = both(FACTS, variables=variables | {"PET_STANDALONE": "1"})
    assert_equal_runs(pair, 2)
    assert pair.muster.facts()["0-1"]["environment"]["ROLE_NAME"] == "trainer"
    assert_equal_runs(both("--role=evaluator", FACTS, variables=variables | {"PET_STANDALONE": "0"}), 2)
    assert_equal_runs(both("report_facts", variables=variables | {"PET_MODULE": "1", "PYTHONPATH": str(SCRIPTS)}), 2)


@pytest.mark.parametrize(
    "variables",
    [
        {"OMP_NUM_THREADS": "3"},
        {"CUDA_VISIBLE_DEVICES": "1,0"},
        {"CUDA_VISIBLE_DEVICES": ""},
        {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "3"},
        {"RANK": "9", "LOCAL_RANK": "9", "WORLD_SIZE": "9", "MASTER_ADDR": "nowhere", "MASTER_PORT": "1"},
        {"TORCHELASTIC_RUN_ID": "outer", "TORCHELASTIC_RESTART_COUNT": "9", "TORCHELASTIC_ERROR_FILE": "/nowhere/error.json"},
        {"A_TEXT": "line one\nline two = äß", "EMPTY": ""},
    ],
    ids=lambda variables: " ".join(variables),
)
def test_what_the_caller_has_set_is_kept_or_overridden_alike(both, eight_gpus, variables):
    pair = both("--nproc-per-node", 2, FACTS, variables=variables | eight_gpus)
    assert_equal_runs(pair, 2)
    if "OMP_NUM_THREADS" in variables:
        assert {facts["environment"]["OMP_NUM_THREADS"] for facts in pair.muster.facts().values()} == {"3"}


def test_a_virtual_local_rank_is_zero_and_sees_one_gpu(both, eight_gpus):
    variables = {"CUDA_VISIBLE_DEVICES": "3,5"} | eight_gpus
    pair = both("--nproc-per-node", 2, "--virtual-local-rank", FACTS, variables=variables)
    assert_equal_runs(pair, 2)
    environments = [facts["environment"] for facts in pair.muster.facts().values()]
    assert [(one["LOCAL_RANK"], one["CUDA_VISIBLE_DEVICES"]) for one in environments] == [("0", "3"), ("0", "5")]


def test_a_module_is_run_as_python_runs_it(both):
    pair = both("--nproc-per-node", 2, "-m", "report_facts", "--flag", "-m", variables={"PYTHONPATH": str(SCRIPTS)})
    assert_equal_runs(pair, 2)
    assert pair.muster.facts()["0-0"]["name"] == "__main__"


def test_a_program_is_run_without_python(both):
    assert_equal_runs(both("--nproc-per-node", 2, "--no-python", sys.executable, FACTS, "--nproc-per-node"), 2)


def test_a_shell_finds_the_same_signals_and_variables(both):
    command = ["--no-python", "/bin/sh", "-c", "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status; umask; ulimit -a; env | cut -d= -f1 | sort"]
    pair = both("--nproc-per-node", 1, *command)
    own = re.compile(r"^MUSTER_\w+\n", re.MULTILINE)
    assert own.sub("", pair.muster.output) == own.sub("", pair.torchrun.output)
    assert "SigIgn" in pair.muster.output and "TORCHELASTIC_USE_AGENT_STORE" in pair.muster.output


def test_a_script_run_by_path_sees_itself_as_main(both):
    pair = both("--nproc-per-node", 1, "--run-path", FACTS, "--rate", "0.1")
    assert (pair.torchrun.code, pair.muster.code) == (0, 0), pair.torchrun.errors + pair.muster.errors
    of_torchrun, of_muster = pair.torchrun.facts()["0-0"], pair.muster.facts()["0-0"]
    assert_equal_environments(of_torchrun["environment"], of_muster["environment"])
    for name in ("arguments", "name", "folder", "terminal", "umask", "first_line_of_input"):
        assert of_muster[name] == of_torchrun[name], name


def test_a_further_descriptor_does_not_reach_the_ranks(both):
    assert_equal_runs(both("--nproc-per-node", 1, FACTS, streams=Streams(one_more=True)), 1)


def test_standard_input_reaches_the_ranks(both, tmp_path):
    (tmp_path / "input").write_text("first line\nsecond line\n")
    pair = both("--nproc-per-node", 1, FACTS, streams=Streams(read=str(tmp_path / "input")))
    assert_equal_runs(pair, 1)
    assert pair.muster.facts()["0-0"]["first_line_of_input"] == "first line\n"


def test_a_rank_knows_a_terminal_when_it_has_one(both):
    master, slave = pty.openpty()
    os.write(master, b"typed\ntyped\n")
    pair = both("--nproc-per-node", 1, FACTS, streams=Streams(terminal=os.ttyname(slave)))
    os.close(slave)
    os.close(master)
    assert_equal_environments(*(outcome.facts()["0-0"]["environment"] for outcome in (pair.torchrun, pair.muster)))
    for outcome in (pair.torchrun, pair.muster):
        assert outcome.facts()["0-0"]["terminal"] == [True, True, True]
        assert outcome.facts()["0-0"]["first_line_of_input"] == "typed\n"


def test_a_failed_round_is_begun_anew_and_counted(both):
    pair = both("--nproc-per-node", 2, "--max-restarts", 2, FACTS, "--fail-first")
    assert (pair.torchrun.code, pair.muster.code) == (0, 0), pair.torchrun.errors + pair.muster.errors
    of_torchrun, of_muster = pair.torchrun.facts(), pair.muster.facts()
    # In the failed round a rank may be stopped before it has written its facts.
    assert any(place.startswith("0-") for place in of_muster) and {"1-0", "1-1"} <= of_muster.keys()
    for place in of_torchrun.keys() & of_muster.keys():
        assert_equal_environments(of_torchrun[place]["environment"], of_muster[place]["environment"])
        assert placed(of_torchrun[place]["environment"]) == placed(of_muster[place]["environment"])
    assert of_muster["1-0"]["environment"]["TORCHELASTIC_RESTART_COUNT"] == "1"
    assert of_muster["1-0"]["environment"]["TORCHELASTIC_MAX_RESTARTS"] == "2"


def two_hosts(start, *options):
    """Both hosts of one run, as one set of facts."""
    hosts = [start([*options, "--node-rank", host, FACTS]) for host in (1, 0)]
    outcomes = [host.outcome() for host in hosts]
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes[0].errors + outcomes[1].errors
    return outcomes[0].facts() | outcomes[1].facts()


def test_two_hosts_share_out_the_ranks_by_their_places(launchers):
    options = ["--nnodes", 2, "--nproc-per-node", 2, "--master-addr", "127.0.0.1", "--rdzv-id", "pair", "--master-port"]
    of_torchrun = two_hosts(launchers.torchrun, *options, free_port())
    of_muster = two_hosts(launchers.muster, *options, port := free_port())
    assert_equal_ranks(of_torchrun, of_muster, 4)
    environments = [of_muster[f"0-{rank}"]["environment"] for rank in range(4)]
    assert [one["GROUP_RANK"] for one in environments] == ["0", "0", "1", "1"]
    assert {(one["WORLD_SIZE"], one["MASTER_ADDR"], one["MASTER_PORT"]) for one in environments} == {("4", "127.0.0.1", str(port))}


def test_redirected_streams_are_files_of_the_log_folder(both):
    pair = both("--nproc-per-node", 2, "-r", 3, "--log-dir", "logs", FACTS)
    assert pair.torchrun.facts().keys() == pair.muster.facts().keys() == {"0-0", "0-1"}, pair.muster.errors
    for outcome in (pair.torchrun, pair.muster):
        for rank in (0, 1):
            folder = f"{outcome.plain(str(outcome.run_folder()))}/attempt_0/{rank}"
            expected = {"0": "/dev/null", "1": f"{folder}/stdout.log", "2": f"{folder}/stderr.log"}
            assert outcome.facts()[f"0-{rank}"]["descriptors"] == expected


def test_log_folder_null_leaves_no_error_file(both):
    pair = both("--nproc-per-node", 1, "--log-dir", "/dev/null", FACTS)
    assert (pair.torchrun.code, pair.muster.code) == (0, 0), pair.torchrun.errors + pair.muster.errors
    of_torchrun, of_muster = (outcome.facts()["0-0"]["environment"] for outcome in (pair.torchrun, pair.muster))
    assert_equal_environments(of_torchrun, of_muster)
    assert of_muster["TORCHELASTIC_ERROR_FILE"] == of_torchrun["TORCHELASTIC_ERROR_FILE"] == ""
