import json
import os
import pty
import signal
import subprocess
import time


def test_lists_eight_gpus_as_json_in_the_documented_form(eight):
    result = eight("gpus", "--json")
    assert result.returncode == 0, result.stderr
    shown = json.loads(result.stdout)
    assert [gpu["index"] for gpu in shown["gpus"]] == list(range(8))
    first = shown["gpus"][0]
    assert first["visible_index"] == 0 and first["name"] == "NVIDIA A100-SXM4-40GB"
    assert first["memory"] == {"total": 40536 << 20, "used": 0, "reserved": None, "free": 40536 << 20}
    assert first["lease"] is None and first["processes"] == [] and first["temperature"] is None
    assert len({gpu["uuid"] for gpu in shown["gpus"]}) == 8
    assert shown["mask"]["value"] is None


def test_a_mask_hides_and_renumbers(eight):
    shown = json.loads(eight("gpus", "--json", CUDA_VISIBLE_DEVICES="6,2").stdout)
    assert [gpu["visible_index"] for gpu in shown["gpus"]] == [None, None, 1, None, None, None, 0, None]
    assert eight("gpus", CUDA_VISIBLE_DEVICES="6,2").stdout.startswith("Available GPUs: 2\n")


def test_no_gpus_is_an_empty_list_and_no_failure(muster):
    muster.inventory("gpus: []\n")
    result = muster("gpus", "--json")
    assert result.returncode == 0 and json.loads(result.stdout)["gpus"] == []
    assert muster("gpus").stdout.startswith("Available GPUs: 0\n")


def test_no_driver_is_said_and_no_failure(muster):
    result = muster("gpus", MUSTER_NVML_LIBRARY="/nonexistent/libnvidia-ml.so.1")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("Available GPUs: 0\n") and "driver" in result.stdout


def test_plain_form_is_the_guides(muster):
    muster.inventory(
        "gpus:\n"
        '  - {name: NVIDIA A100-SXM4-40GB, memory_total: 40536MiB, memory_used: 1234MiB, compute_capability: "8.0"}\n'
        '  - {name: NVIDIA A100-SXM4-40GB, memory_total: 40536MiB, memory_used: 0, compute_capability: "8.0"}\n'
    )
    assert muster("gpus", "--plain").stdout == (
        "Available GPUs: 2\n"
        "GPU 0: NVIDIA A100-SXM4-40GB (40536 MB total, 1234 MB used (3.0%), Compute 8.0)\n"
        "GPU 1: NVIDIA A100-SXM4-40GB (40536 MB total, 0 MB used (0.0%), Compute 8.0)\n"
    )


def test_what_json_writes_the_inventory_reads(eight, tmp_path):
    eight.inventory(
        "driver_version: 580.1\n"
        "gpus:\n"
        "  - {name: A, memory_total: 80GiB, memory_used: 3GiB, temperature: 40, power: 71.5, utilization: 12, numa_node: 0,\n"
        '     compute_capability: "9.0", multiprocessor_count: 132, processes: [{pid: 99999999, memory: 2GiB}]}\n'
        "  - {name: B, memory_total: 40GiB, healthy: false}\n"
        "links: [{between: [0, 1], kind: nvlink, lanes: 18}]\n"
    )
    first = eight("gpus", "--json").stdout
    copy = tmp_path / "copy.json"
    copy.write_text(first)
    again = eight("gpus", "--gpus-from", str(copy), "--json")
    assert again.returncode == 0, again.stderr
    a, b = json.loads(first), json.loads(again.stdout)
    a.pop("source"), b.pop("source")
    for shown in (a, b):
        for gpu in shown["gpus"]:
            gpu["unhealthy_because"] = bool(gpu["unhealthy_because"])  # names the file
    assert a == b


def test_query_speaks_nvidia_smis_csv(eight):
    assert eight("gpus", "--query", "index,memory.total,utilization.gpu,temperature.gpu", "--format", "csv").stdout.splitlines()[:2] == [
        "index, memory.total [MiB], utilization.gpu [%], temperature.gpu",
        "0, 40536 MiB, 0 %, [N/A]",
    ]
    assert eight("gpus", "--query-gpu=index,memory.total", "--format=csv,noheader,nounits").stdout.splitlines()[7] == "7, 40536"
    wrong = eight("gpus", "--query", "memory.totl")
    assert wrong.returncode == 2 and "did you mean memory.total?" in wrong.stderr
    assert eight("gpus", "--query", "index", "--format", "xml").returncode == 2


def test_list_is_nvidia_smis(eight):
    lines = eight("gpus", "-L").stdout.splitlines()
    assert len(lines) == 8 and lines[3].startswith("GPU 3: NVIDIA A100-SXM4-40GB (UUID: GPU-")


def test_topology_is_a_matrix(muster):
    muster.inventory("gpus: [{memory_total: 1GiB, numa_node: 0}, {memory_total: 1GiB, numa_node: 1}]\nlinks: [{between: [1, 0], kind: nvlink, lanes: 18}]\n")
    lines = muster("gpus", "--topology").stdout.splitlines()
    assert lines[1].split() == ["GPU0", "GPU1", "CPU", "affinity", "NUMA", "node"]
    assert lines[2].split()[:3] == ["GPU0", "X", "NV18"] and lines[3].split()[:3] == ["GPU1", "NV18", "X"]


def test_colour_only_on_a_terminal(eight):
    assert "\033[" not in eight("gpus").stdout
    read, write = pty.openpty()
    subprocess.run([str(eight.program), "gpus"], env={**eight.environment, "TERM": "xterm"}, stdout=write, check=True)
    os.close(write)
    shown = b""
    try:
        while block := os.read(read, 65536):
            shown += block
    except OSError:  # the other end is closed
        pass
    os.close(read)
    assert b"\033[" in shown and b"Available GPUs: 8" in shown


def test_watch_shows_again_and_stops_when_told(eight):
    process = eight.start("gpus", "--watch=100ms", "--plain")
    seen = 0
    while seen < 3:
        if process.stdout.readline().startswith("Available GPUs: 8"):
            seen += 1
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert eight("gpus", "--watch=1ms").returncode == 2


def test_a_broken_inventory_names_file_line_and_column(muster):
    muster.inventory("gpus:\n  - {memory_totl: 40GiB}\n")
    result = muster("gpus")
    assert result.returncode == 2 and result.stdout == ""
    assert "gpus.yaml:2:6" in result.stderr and "memory_total" in result.stderr


def test_a_mask_that_cuda_would_cut_is_refused(eight):
    result = eight("gpus", CUDA_VISIBLE_DEVICES="0,9,1")
    assert result.returncode == 2 and "there is no GPU 9" in result.stderr


class TestPick:
    def test_prints_a_mask_for_the_shell(self, eight):
        assert eight("gpus", "pick", "-n", "2").stdout == "0,1\n"
        assert eight("gpus", "pick", "--gpu-ids", "5", "2").stdout == "5,2\n"
        assert eight("gpus", "pick", "--gpu-ids", "5,2").stdout == "5,2\n"
        assert eight("gpus", "pick").stdout == "0\n"

    def test_composes_with_the_inherited_mask(self, eight):
        assert eight("gpus", "pick", "--gpu-ids", "0", "1", CUDA_VISIBLE_DEVICES="4,5,6,7").stdout == "4,5\n"
        hidden = eight("gpus", "pick", "--gpu-ids", "4", CUDA_VISIBLE_DEVICES="4,5,6,7")
        assert hidden.returncode == 2 and "available: 0, 1, 2, 3" in hidden.stderr

    def test_writes_uuids_on_request(self, eight):
        mask = eight("gpus", "pick", "-n", "2", "--uuid").stdout.strip().split(",")
        assert len(mask) == 2 and all(entry.startswith("GPU-") for entry in mask)
        assert eight("gpus", "pick", "-n", "1", "--uuid", CUDA_VISIBLE_DEVICES=mask[1]).stdout.strip() == mask[1]

    def test_filters_by_need(self, muster):
        muster.inventory(
            "gpus:\n  - {memory_total: 40GiB, memory_used: 35GiB, utilization: 90}\n"
            "  - {memory_total: 40GiB, memory_used: 10GiB, utilization: 50}\n  - {memory_total: 40GiB, memory_used: 0, utilization: 0}\n"
        )
        assert muster("gpus", "pick", "-n", "2", "--free", "20GiB").stdout == "1,2\n"
        assert muster("gpus", "pick", "-n", "2", "--least-loaded").stdout == "2,1\n"
        assert muster("gpus", "pick", "--max-utilization", "10").stdout == "2\n"
        assert muster("gpus", "pick", "--up-to", "8", "--free", "20GiB").stdout == "1,2\n"
        assert muster("gpus", "pick", "--model-size", "40GiB").stdout == "1,2\n"

    def test_refuses_with_what_blocked_each(self, eight):
        result = eight("gpus", "pick", "-n", "9")
        assert result.returncode == 3 and result.stdout == ""
        assert "9 GPUs asked for, 8 available" in result.stderr

    def test_bad_sizes_are_bad_input(self, eight):
        assert eight("gpus", "pick", "--free", "20Gb").returncode == 2
        assert eight("gpus", "pick", "-n", "0").returncode == 2
        assert eight("gpus", "pick", "-n", "two").returncode == 2


class TestHold:
    def test_masks_and_runs_the_command(self, eight):
        result = eight("gpus", "hold", "--gpu-ids", "3", "1", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER; exit 7")
        assert result.stdout == "3,1 PCI_BUS_ID\n" and result.returncode == 7, result.stderr

    def test_arguments_of_the_command_are_its_own(self, eight):
        result = eight("gpus", "hold", "--", "printf", "%s|", "-n", "--json", "--", "a b")
        assert result.stdout == "-n|--json|--|a b|"

    def test_holds_exclude_each_other_and_end_with_the_command(self, eight):
        holder = eight.start("gpus", "hold", "-n", "6", "--", "sh", "-c", "echo ready; exec sleep 600")
        assert holder.stdout.readline() == "ready\n", holder.stderr.read()
        shown = json.loads(eight("gpus", "--json").stdout)
        assert [gpu["lease"]["pid"] for gpu in shown["gpus"] if gpu["lease"]] == [holder.pid] * 6
        refused = eight("gpus", "hold", "-n", "3", "--", "true")
        assert refused.returncode == 3 and f"pid {holder.pid}" in refused.stderr
        assert eight("gpus", "hold", "-n", "2", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES").stdout == "6,7\n"
        assert eight("gpus", "hold", "-n", "8", "--share", "--", "true").returncode == 0
        holder.kill()
        holder.wait()
        assert eight("gpus", "hold", "-n", "8", "--wait=60s", "--", "true").returncode == 0

    def test_waits_for_its_turn(self, eight):
        holder = eight.start("gpus", "hold", "-n", "8", "--", "sh", "-c", "echo ready; exec sleep 600")
        holder.stdout.readline()
        waiter = eight.start("gpus", "hold", "-n", "1", "--wait", "--", "echo", "mine")
        assert "waiting" in waiter.stderr.readline()
        assert waiter.poll() is None
        timed_out = eight("gpus", "hold", "-n", "1", "--wait=200ms", "--", "true")
        assert timed_out.returncode == 3
        os.kill(holder.pid, signal.SIGKILL)
        out, _ = waiter.communicate(timeout=60)
        assert out == "mine\n" and waiter.returncode == 0
        holder.wait()

    def test_signals_reach_the_command(self, eight):
        holder = eight.start("gpus", "hold", "--", "sh", "-c", "trap 'echo caught; exit 9' TERM; echo ready; while :; do sleep 0.05; done")
        holder.stdout.readline()
        holder.send_signal(signal.SIGTERM)
        out, _ = holder.communicate(timeout=60)
        assert out == "caught\n" and holder.returncode == 9

    def test_a_lease_inside_a_lease_is_a_part_of_it(self, eight):
        inner = f"{eight.program} gpus hold -n 1 -- sh -c 'echo inner $CUDA_VISIBLE_DEVICES'; {eight.program} gpus hold -n 3 -- true || echo refused $?"
        result = eight("gpus", "hold", "--gpu-ids", "4", "5", "--", "sh", "-c", inner)
        assert result.stdout == "inner 4\nrefused 3\n", result.stderr

    def test_waits_until_the_last_holders_memory_is_back(self, muster):
        small = "gpus: [{memory_total: 40GiB, memory_used: 1GiB}]\n"
        muster.inventory(small)
        assert muster("gpus", "hold", "--", "true").returncode == 0
        muster.inventory("gpus: [{memory_total: 40GiB, memory_used: 30GiB}]\n")
        short = muster("gpus", "hold", "--reclaim=300ms", "--", "echo", "early")
        assert short.returncode == 3 and short.stdout == "" and "30.0 GiB in use" in short.stderr
        patient = muster.start("gpus", "hold", "--reclaim=60s", "--", "echo", "back")
        assert "not back" in patient.stderr.readline()
        time.sleep(0.2)
        assert patient.poll() is None
        muster.inventory(small)
        out, _ = patient.communicate(timeout=60)
        assert out == "back\n"
        muster.inventory("gpus: [{memory_total: 40GiB, memory_used: 30GiB}]\n")
        assert muster("gpus", "hold", "--reclaim=0s", "--", "true").returncode == 0

    def test_a_living_process_that_uses_the_memory_is_not_waited_for(self, muster):
        muster.inventory("gpus: [{memory_total: 40GiB, memory_used: 0}]\n")
        assert muster("gpus", "hold", "--", "true").returncode == 0
        muster.inventory("gpus: [{memory_total: 40GiB, memory_used: 30GiB, processes: [{pid: 1, memory: 30GiB}]}]\n")
        assert muster("gpus", "hold", "--free=5GiB", "--reclaim=300ms", "--", "echo", "ok").stdout == "ok\n"

    def test_says_what_is_missing(self, eight):
        assert eight("gpus", "hold", "-n", "1").returncode == 2
        no_separator = eight("gpus", "hold", "-n", "1", "echo", "--loud", "x")
        assert no_separator.returncode == 2 and no_separator.stdout == "" and "hold -n 2 -- python train.py" in no_separator.stderr
        missing = eight("gpus", "hold", "--", "no-such-program-anywhere")
        assert missing.returncode == 2 and "no-such-program-anywhere" in missing.stderr
        eight.environment["MUSTER_LEASE_DIR"] = eight.environment["MUSTER_GPUS"]  # a file
        broken = eight("gpus", "hold", "--", "true")
        assert broken.returncode != 0 and "MUSTER_LEASE_DIR" in broken.stderr
