"""muster launch: options, GPUs and leases, supervision; as a user would run it. Ranks are shell scripts: they start at once."""

import json
import os
import pathlib
import signal
import socket
import sys
import time

import pytest
from free_port import free_port

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))
import launch_chaos  # noqa: E402

SAY = 'echo "$RANK $LOCAL_RANK $WORLD_SIZE ${CUDA_VISIBLE_DEVICES-unset}"'


def launch(muster, *arguments, script=SAY, **variables):
    return muster("launch", *arguments, "--no-python", "/bin/sh", "-c", script, **variables)


def said(answer):
    return sorted(answer.stdout.split("\n")[:-1])


def wait_for(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


# ---- the command line ----


def test_a_script_is_run_by_python_with_its_arguments_untouched(muster):
    script = muster.folder / "script.py"
    script.write_text("import sys; print(sys.argv[1:])")
    answer = muster("launch", "script.py", "--lr", "1e-4", "--nproc-per-node", "9", "--", "-x")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == "['--lr', '1e-4', '--nproc-per-node', '9', '--', '-x']\n"


def test_a_program_after_two_dashes_is_run_as_it_is(muster):
    answer = muster("launch", "--nproc-per-node", "2", "--", "/bin/echo", "-n", "a b")
    assert (answer.returncode, answer.stdout) == (0, "a ba b")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--nproc-per-node", "3"],
        ["--nproc_per_node=3"],
        ["--nproc", "3"],
        ["--ranks", "3"],
        ["--num_processes", "3", "--num_machines", "1", "--machine_rank", "0"],
        ["--standalone", "--nproc-per-node", "3"],
        ["--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "--nproc-per-node", "3"],
    ],
)
def test_one_meaning_has_several_spellings(muster, arguments):
    answer = launch(muster, *arguments)
    assert said(answer) == ["0 0 3 unset", "1 1 3 unset", "2 2 3 unset"], answer.stderr


def test_defaults_come_from_the_pet_variables_and_the_command_line_wins(muster):
    assert len(said(launch(muster, PET_NPROC_PER_NODE="2"))) == 2
    assert len(said(launch(muster, "--nproc-per-node", "3", PET_NPROC_PER_NODE="2"))) == 3
    assert launch(muster, PET_STANDALONE="1", PET_NNODES="2").returncode == 0
    assert launch(muster, PET_STANDALONE="0").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--nproc-per-nod3", "2"], ["--nproc-per-nod3", "--nproc-per-node"]),
        (["--nproc-per-node", "0"], ["--nproc-per-node 0", "gpu, cpu or auto"]),
        (["--nproc-per-node", "xpu"], ["xpu", "gpu, cpu or auto"]),
        (["--nnodes", "3:2"], ["--nnodes 3:2", "MIN"]),
        (["--nnodes", "2", "--node-rank", "2"], ["--node-rank 2", "0 to 1"]),
        (["--rdzv-backend", "etcd"], ["--rdzv-backend etcd", "c10d"]),
        (["--rdzv-backend", "c10d", "--nnodes", "2"], ["--rdzv-endpoint"]),
        (["--rdzv-conf", "join_timeot=3"], ["join_timeot", "join_timeout"]),
        (["--rdzv-conf", "store_type=file"], ["store_type=file"]),
        (["--logs-specs", "mine"], ["--logs-specs mine", "plug-in"]),
        (["--event-log-handler", "scuba"], ["--event-log-handler scuba", "plug-in"]),
        (["--mixed_precision", "bf16"], ["--mixed_precision", "Accelerator"]),
        (["--redirects", "4"], ["--redirects", "4"]),
        (["--signals-to-handle", "SIGKILL"], ["SIGKILL"]),
        (["--max-restarts", "-1"], ["max-restarts"]),
        (["--isolated", "--virtual-local-rank"], ["--isolated", "exclude"]),
        (["--num_processes", "3", "--num_machines", "2"], ["--num-processes 3", "multiple"]),
        (["--module"], ["--module", "--no-python"]),
    ],
)
def test_what_cannot_be_meant_or_served_is_refused_by_name(muster, arguments, words):
    answer = launch(muster, *arguments)
    assert answer.returncode == 2
    for word in words:
        assert word in answer.stderr


def test_nothing_to_launch_says_what_to_type(muster):
    answer = muster("launch", "--nproc-per-node", "2")
    assert answer.returncode == 2
    assert "muster launch train.py" in answer.stderr


def test_a_program_that_does_not_exist_is_named(muster):
    answer = muster("launch", "--nproc-per-node", "2", "--", "/no/such/program")
    assert answer.returncode == 1
    assert "/no/such/program" in answer.stderr and "No such file" in answer.stderr


# ---- ports ----


def test_a_busy_port_that_was_named_is_refused_at_once(muster):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = launch(muster, "--master-port", str(port))
    assert answer.returncode == 3
    assert str(port) in answer.stderr


def test_the_named_port_is_the_one_ranks_are_told(muster):
    port = free_port()
    answer = launch(muster, "--master-port", str(port), script="echo $MASTER_ADDR $MASTER_PORT")
    assert answer.stdout == f"127.0.0.1 {port}\n"


def test_runs_that_start_together_never_share_a_port(muster):
    muster.inventory("gpus: []\n")
    script = "echo $MASTER_PORT; touch here-$$; until [ $(ls here-* | wc -l) = 16 ]; do sleep 0.1; done"
    runs = [muster.start("launch", "--nproc-per-node", "2", "--", "/bin/sh", "-c", script) for _ in range(8)]
    ports = []
    for run in runs:
        out, err = run.communicate(timeout=120)
        assert run.returncode == 0, err
        assert len(set(out.split())) == 1
        ports.append(out.split()[0])
    assert len(set(ports)) == 8


# ---- GPUs ----


def test_a_number_of_gpus_is_picked_masked_and_gets_a_rank_each(eight):
    assert said(launch(eight, "-n", "2")) == ["0 0 2 0,1", "1 1 2 0,1"]


def test_ids_keep_their_order_and_are_relative_to_the_inherited_mask(eight):
    answer = launch(eight, "--gpu-ids", "3", "0", CUDA_VISIBLE_DEVICES="4,5,6,7")
    assert said(answer) == ["0 0 2 7,4", "1 1 2 7,4"]
    assert said(launch(eight, "--gpu_ids", "3,0", CUDA_VISIBLE_DEVICES="4,5,6,7")) == said(answer)


def test_isolated_ranks_see_their_own_gpu_only(eight):
    assert said(launch(eight, "--gpu-ids", "4,5,6,7", "--isolated")) == ["0 0 4 4", "1 1 4 5", "2 2 4 6", "3 3 4 7"]


def test_own_gpu_first_keeps_the_peers_visible(eight):
    assert said(launch(eight, "--gpu-ids", "4,5,6", "--own-gpu-first")) == ["0 0 3 4,5,6", "1 0 3 5,6,4", "2 0 3 6,4,5"]


def test_with_torchruns_options_alone_the_mask_stays_and_the_gpus_are_leased(eight):
    def leased():
        return [gpu["index"] for gpu in json.loads(eight("gpus", "--json").stdout)["gpus"] if gpu["lease"]]

    run = eight.start("launch", "--nproc-per-node", "2", "--no-python", "/bin/sh", "-c", f"{SAY}; sleep 60")
    lines = sorted(run.stdout.readline() for _ in range(2))
    assert lines == ["0 0 2 unset\n", "1 1 2 unset\n"]
    assert leased() == [0, 1]
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=60)
    assert leased() == []


def test_gpus_that_others_hold_are_refused_with_the_holders_name_unless_shared(eight):
    holder = eight.start("gpus", "hold", "--gpu-ids", "1", "--", "/bin/sh", "-c", "echo held; exec sleep 60")
    try:
        assert holder.stdout.readline() == "held\n"
        refused = launch(eight, "--nproc-per-node", "2")
        assert refused.returncode == 3
        assert f"pid {holder.pid}" in refused.stderr
        assert launch(eight, "--nproc-per-node", "1").returncode == 0  # GPU 0 is free
        assert launch(eight, "--nproc-per-node", "2", "--share").returncode == 0
        assert said(launch(eight, "-n", "2")) == ["0 0 2 0,2", "1 1 2 0,2"]
    finally:
        holder.kill()
        holder.communicate()


def test_a_rank_for_every_gpu(eight):
    assert len(said(launch(eight, "--nproc-per-node", "gpu"))) == 8
    assert len(said(launch(eight, "--nproc-per-node", "auto", CUDA_VISIBLE_DEVICES="2,3"))) == 2


def test_no_gpu_where_one_is_asked_for_is_a_refusal(muster):
    muster.inventory("gpus: []\n")
    for arguments in (["-n", "1"], ["--nproc-per-node", "gpu"], ["--isolated"], ["--numa-binding", "node"]):
        assert launch(muster, *arguments).returncode == 3, arguments
    assert launch(muster, "--nproc-per-node", "2").returncode == 0


def test_device_cpu_hides_the_gpus_and_leases_nothing(eight):
    assert said(launch(eight, "--device", "cpu", "--nproc-per-node", "2")) == ["0 0 2 ", "1 1 2 "]


def test_a_bad_mask_is_refused_before_anything_starts(eight):
    answer = launch(eight, CUDA_VISIBLE_DEVICES="0,99")
    assert answer.returncode == 2 and "99" in answer.stderr and answer.stdout == ""


# ---- --dry-run ----


def test_dry_run_states_the_contract_and_starts_nothing(eight):
    answer = eight("launch", "--dry-run", "--gpu-ids", "4,5", "--isolated", "train.py")
    assert answer.returncode == 0
    assert "isolated" in answer.stdout and "device 0" in answer.stdout and "cuda:0" in answer.stdout


def test_dry_run_as_json_shows_every_rank(eight):
    answer = eight("launch", "--dry-run", "--json", "--nnodes", "2", "--node-rank", "1", "--nproc-per-node", "8", "--master-addr", "192.168.1.100", "train.py")
    plan = json.loads(answer.stdout)
    assert (plan["world_size"], plan["master_addr"], plan["master_port"], plan["contract"]) == (16, "192.168.1.100", 29500, "collective")
    assert [rank["rank"] for rank in plan["ranks"]] == list(range(8, 16))
    assert [rank["gpu"]["index"] for rank in plan["ranks"]] == list(range(8))
    assert [rank["device"] for rank in plan["ranks"]] == list(range(8))


# ---- supervision ----


def test_the_first_failing_ranks_code_is_passed_on_when_asked_for(muster):
    script = "if [ $RANK = 1 ]; then exit 7; fi; sleep 60"
    assert launch(muster, "--nproc-per-node", "3", script=script).returncode == 1
    assert launch(muster, "--nproc-per-node", "3", "--exit-code", "worker", script=script).returncode == 7
    killed = "if [ $RANK = 1 ]; then kill -9 $$; fi; sleep 60"
    assert launch(muster, "--nproc-per-node", "3", "--exit-code", "worker", script=killed).returncode == 137


def test_the_report_names_the_cause_quotes_its_last_lines_and_is_kept_as_json(muster):
    script = 'if [ $RANK = 2 ]; then echo "disk quota exceeded" >&2; exit 5; fi; sleep 60'
    answer = launch(muster, "--nproc-per-node", "3", "--log-dir", "logs", script=script)
    assert "disk quota exceeded" in answer.stderr.split("FAILED")[0]
    [file] = (muster.folder / "logs").glob("*/failure.json")
    cause = json.loads(file.read_text())["root_cause"]
    assert (cause["rank"], cause["exit_code"], cause["last_lines"]) == (2, 5, ["disk quota exceeded"])


def test_independent_ranks_go_on_when_one_fails(muster):
    script = "if [ $RANK = 0 ]; then exit 3; fi; sleep 0.3; echo done $RANK"
    answer = launch(muster, "--nproc-per-node", "3", "--independent", script=script)
    assert said(answer) == ["done 1", "done 2"]
    assert answer.returncode == 1


def test_a_failed_round_is_begun_anew(muster):
    script = 'echo "$TORCHELASTIC_RESTART_COUNT"; [ $TORCHELASTIC_RESTART_COUNT = 2 ]'
    answer = launch(muster, "--max-restarts", "2", script=script)
    assert (answer.returncode, answer.stdout) == (0, "0\n1\n2\n")
    assert launch(muster, "--max-restarts", "1", script=script).returncode == 1


def test_a_user_signal_is_passed_on_and_the_run_goes_on(muster):
    script = 'trap "echo $RANK checkpoint; exit 0" USR1; echo ready; while :; do sleep 0.05; done'
    run = muster.start("launch", "--nproc-per-node", "2", "--no-python", "/bin/sh", "-c", script)
    for _ in range(2):
        assert run.stdout.readline() == "ready\n"
    run.send_signal(signal.SIGUSR1)
    out, err = run.communicate(timeout=60)
    assert (run.returncode, sorted(out.split("\n"))) == (0, ["", "0 checkpoint", "1 checkpoint"]), err


def test_ranks_that_do_not_end_after_the_grace_are_killed(muster):
    script = 'trap "" TERM; echo ready; while :; do sleep 0.05; done'
    run = muster.start("launch", "--shutdown-timeout", "1", "--no-python", "/bin/sh", "-c", script)
    assert run.stdout.readline() == "ready\n"
    run.send_signal(signal.SIGTERM)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 1
    assert "SIGTERM" in err


def test_what_ranks_leave_behind_is_ended(muster):
    file = muster.folder / "pid"
    answer = launch(muster, script=f"(setsid sh -c 'echo $$ > {file}; exec sleep 300' > /dev/null 2>&1 &) ; while [ ! -s {file} ]; do sleep 0.01; done")
    assert answer.returncode == 0
    assert "left 1 process behind" in answer.stderr
    wait_for(lambda: not pathlib.Path(f"/proc/{int(file.read_text())}").exists())


def test_a_run_that_ended_well_leaves_no_temporary_folder(muster):
    temporary = muster.folder / "temporary"
    temporary.mkdir()
    assert launch(muster, "--nproc-per-node", "2", TMPDIR=str(temporary)).returncode == 0
    assert os.listdir(temporary) == []


def test_nothing_survives_fifty_random_kills_and_the_right_one_is_blamed(muster):
    counts, violations = launch_chaos.run_rounds(str(muster.program), rounds=50, seed=7, patience=60)
    assert sum(counts.values()) == 50
    assert violations == []
