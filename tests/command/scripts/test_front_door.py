"""./muster: when it builds, when it does not, and what it passes through."""

import fcntl
import signal
import threading
from pathlib import Path

import pytest
from fake_tree import PATIENCE, set_age, write_command


def wait_for_build(tree, process) -> int:
    """Returns the process id of a fake build that never ends, once it has begun."""
    waiting = Path(f"{tree.calls_file}.waiting")
    pause = threading.Event()
    while not waiting.exists() or not waiting.read_text().endswith("\n"):
        assert process.poll() is None, process.stderr.read()
        pause.wait(0.01)
    return tree.builder()


def is_running(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text()
    except FileNotFoundError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def test_the_first_start_configures_and_builds_and_says_so_on_standard_error_only(tree):
    result = tree.muster("gpus")
    assert result.returncode == 0, result.stderr
    assert tree.calls() == ["configure release", "build release"]
    assert result.stdout == f"<gpus> in {tree.root}\n"
    assert "building release" in result.stderr and "built release" in result.stderr


def test_a_second_start_builds_nothing_and_says_nothing(tree):
    tree.muster()
    before = tree.calls()
    result = tree.muster()
    assert tree.calls() == before
    assert result.stderr == ""


@pytest.mark.parametrize("name", ["src/layer.cpp", "CMakeLists.txt", "CMakePresets.json", "apps", "cmake"])
def test_a_touched_source_is_built_again_once(tree, name):
    tree.muster()
    tree.age_build()
    (tree.root / name).touch()
    assert tree.muster().returncode == 0
    assert tree.calls().count("build release") == 2
    tree.muster()
    assert tree.calls().count("build release") == 2


def test_a_touched_file_outside_the_sources_causes_no_build(tree):
    tree.muster()
    tree.age_build()
    (tree.root / "README.md").touch()
    tree.muster()
    assert tree.calls().count("build release") == 1


def test_a_deleted_source_causes_one_build(tree):
    tree.muster()
    tree.age_build()
    (tree.root / "src/forgotten.cpp").unlink()
    tree.muster()
    tree.muster()
    assert tree.calls().count("build release") == 2


def test_a_source_folder_that_appears_or_goes_as_a_whole_causes_a_build(tree):
    tree.muster()
    (tree.root / "engine").mkdir()
    set_age(tree.root / "engine", hours=2)
    tree.muster()
    assert tree.calls().count("build release") == 2
    (tree.root / "engine").rmdir()
    tree.muster()
    tree.muster()
    assert tree.calls().count("build release") == 3


def test_changed_presets_are_configured_again_and_changed_sources_are_not(tree):
    tree.muster()
    tree.age_build()
    (tree.root / "src/layer.cpp").touch()
    tree.muster()
    assert tree.calls().count("configure release") == 1
    tree.age_build()
    (tree.root / "CMakePresets.json").touch()
    tree.muster()
    assert tree.calls().count("configure release") == 2


def test_a_tree_that_moved_is_configured_again(tree):
    tree.muster()
    moved = tree.root.with_name("moved")
    tree.root.rename(moved)
    tree.root = moved
    tree.age_build()
    (tree.root / "src/layer.cpp").touch()
    assert tree.muster().returncode == 0
    assert tree.calls().count("configure release") == 2


def test_a_deleted_program_is_built_again(tree):
    tree.muster()
    (tree.root / "build/release/apps/cli/muster").unlink()
    assert tree.muster().returncode == 0
    assert tree.calls().count("build release") == 2


def test_an_edit_made_during_a_build_is_seen_by_the_next_start(tree):
    tree.muster(FAKE_EDIT="1")
    assert tree.calls().count("build release") == 1
    tree.muster()
    assert tree.calls().count("build release") == 2
    tree.muster()
    assert tree.calls().count("build release") == 2


def test_arguments_exit_status_and_folder_reach_the_program_unchanged(tree, tmp_path):
    result = tree.run(
        str(tree.root / "muster"), "gpus", "two words", "", "*", "--config=a b", folder=tmp_path, FAKE_STATUS="3"
    )
    assert result.returncode == 3
    assert result.stdout == f"<gpus><two words><><*><--config=a b> in {tmp_path}\n"


def test_it_works_through_a_symbolic_link_and_by_a_relative_path(tree, tmp_path):
    link = tmp_path / "link to muster"
    link.symlink_to(tree.root / "muster")
    assert tree.run(str(link), "one", folder=tmp_path).stdout == f"<one> in {tmp_path}\n"
    assert tree.run("bash", "muster", "two").stdout == f"<two> in {tree.root}\n"
    assert tree.run("../muster", "three", folder=tree.root / "src").stdout == f"<three> in {tree.root / 'src'}\n"
    assert tree.calls().count("build release") == 1


def test_a_failed_build_shows_the_error_and_the_log_and_leaves_no_stamp(tree):
    (tree.root / "src/broken.cpp").touch()
    result = tree.muster()
    assert result.returncode == 1
    assert result.stdout == ""
    assert "src/broken.cpp:1: error: expected a declaration" in result.stderr
    assert str(tree.root / "build/release/muster-build.log") in result.stderr
    assert not tree.stamp.exists()


def test_a_build_that_fails_after_a_good_one_takes_its_stamp_away(tree):
    tree.muster()
    tree.age_build()
    (tree.root / "src/broken.cpp").touch()
    assert tree.muster().returncode == 1
    assert not tree.stamp.exists()
    (tree.root / "src/broken.cpp").unlink()
    assert tree.muster().returncode == 0


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_build_stops_its_processes_and_leaves_no_stamp(tree, sent, status):
    (tree.root / "src/endless.cpp").touch()
    process = tree.start(str(tree.root / "muster"))
    builder = wait_for_build(tree, process)
    process.send_signal(sent)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == status
    assert not is_running(builder)
    assert not tree.stamp.exists()


def test_a_build_killed_outright_leaves_no_stamp_and_keeps_others_waiting_until_its_processes_end(tree):
    (tree.root / "src/endless.cpp").touch()
    first = tree.start(str(tree.root / "muster"))
    wait_for_build(tree, first)
    first.kill()
    first.wait()
    assert not tree.stamp.exists()
    (tree.root / "src/endless.cpp").unlink()
    second = tree.start(str(tree.root / "muster"), "again")
    assert "waiting" in second.stderr.readline()
    tree.end_build()
    output, _ = second.communicate(timeout=PATIENCE)
    assert output == f"<again> in {tree.root}\n"


def test_a_second_start_waits_for_the_build_that_runs_and_says_so(tree):
    (tree.root / "build").mkdir()
    with open(tree.root / "build/.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = tree.start(str(tree.root / "muster"), "late")
        assert "another build is running" in process.stderr.readline()
        assert tree.calls() == []
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert output == f"<late> in {tree.root}\n"


def test_two_first_starts_at_once_build_once(tree):
    processes = [tree.start(str(tree.root / "muster"), name) for name in ("one", "two")]
    outputs = [process.communicate(timeout=PATIENCE) for process in processes]
    assert [output for output, _ in outputs] == [f"<{name}> in {tree.root}\n" for name in ("one", "two")], outputs
    assert tree.calls().count("build release") == 1


@pytest.fixture
def with_torch(tree):
    """A tree whose set-up always succeeds and writes down what it was asked for."""
    write_command(
        tree.root / "scripts/setup.sh",
        '#!/usr/bin/env bash\necho "setup $*" >>"$FAKE_CALLS"\nexit ${FAKE_SETUP_STATUS:-0}\n',
    )
    return tree


def record_torch(tree):
    (tree.root / ".muster").mkdir()
    (tree.root / ".muster/torch-location").write_text("/somewhere/torch\n")


@pytest.mark.parametrize("command", ["evaluate", "generate", "run", "sweep", "train"])
def test_a_command_that_computes_builds_the_worker_too_and_once(with_torch, command):
    result = with_torch.muster(command, "-m", "model")
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"<{command}><-m><model> in {with_torch.root}\n"
    assert with_torch.calls() == [
        "setup --quiet control", "configure release", "build release",
        "setup --quiet control engine", "configure worker", "build worker",
    ]  # fmt: skip
    with_torch.muster(command, "-m", "model")
    assert with_torch.calls().count("build worker") == 1


@pytest.mark.parametrize(
    "words",
    [("gpus",), ("generate", "--help"), ("generate", "--dry-run"), ("run", "x.yaml", "--dry-run"), ("doctor",), ("sweep", "best", "s"), ()],
)
def test_a_command_that_computes_nothing_never_waits_for_torch(with_torch, words):
    assert with_torch.muster(*words).returncode == 0
    assert not any("worker" in call or "engine" in call for call in with_torch.calls())


def test_a_sweep_of_another_program_never_waits_for_torch(with_torch):
    (with_torch.root / "own.yaml").write_text("metric: loss\ncommand: [python, train.py]\n")
    for words in (["own.yaml"], ["run=s", "sweep=own.yaml"]):
        assert with_torch.muster("sweep", *words).returncode == 0
    assert not any("worker" in call or "engine" in call for call in with_torch.calls())


def test_doctor_builds_the_worker_where_torch_is_there_and_runs_where_that_fails(with_torch):
    record_torch(with_torch)
    assert with_torch.muster("doctor").returncode == 0
    assert with_torch.calls().count("build worker") == 1
    (with_torch.root / "build/worker/apps/worker/muster-worker").unlink()
    result = with_torch.muster("doctor", FAKE_SETUP_STATUS="2")
    assert result.stdout == f"<doctor> in {with_torch.root}\n"
    assert result.returncode == 0


def test_a_worker_that_cannot_be_set_up_ends_a_command_that_computes(with_torch):
    with_torch.muster("gpus")
    result = with_torch.muster("generate", FAKE_SETUP_STATUS="2")
    assert result.returncode == 2
    assert result.stdout == ""


def test_a_touched_source_rebuilds_the_worker_only_for_commands_that_compute(with_torch):
    with_torch.muster("generate")
    with_torch.age_build()
    (with_torch.root / "src/layer.cpp").touch()
    with_torch.muster("gpus")
    assert with_torch.calls().count("build worker") == 1
    with_torch.muster("generate")
    assert with_torch.calls().count("build worker") == 2
    assert with_torch.calls().count("build release") == 2


def test_missing_tools_that_may_not_be_installed_end_with_the_list_and_status_2(tree):
    (tree.commands / "ninja").unlink()
    result = tree.muster(MUSTER_SETUP="never")
    assert result.returncode == 2
    assert "ninja" in result.stderr
    assert result.stdout == ""
    assert tree.calls() == []
