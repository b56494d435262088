"""What muster top shows in a terminal, and what its keys do."""

import json
import os
import re
import signal
import subprocess
import sys

STEPS = "for i in $(seq 1 2000); do echo \"step $i/2000  loss 0.5  lr 1e-3  norm 1  5,210 tokens/s  58 s left\"; sleep 0.05; done"


def test_every_gpu_and_job_has_a_row_and_progress_moves(desk):
    (first,) = desk.submit("sh", "-c", STEPS, options=["-n", 2, "--label", "steps"])
    (second,) = desk.submit("sleep", "1000", options=["-n", 7, "--label", "patient"])
    (third,) = desk.submit("sh", "-c", "echo oh no; exit 3", options=["-n", 0])
    desk.run("wait", third, status=3)
    desk.open(width=140, height=40)
    screen = desk.shows("8 GPUs, 2 in use", "1 running, 1 waiting, 1 ended")
    gpus = [line for line in screen.splitlines() if "GPU of a test" in line]
    assert [line.split()[0] for line in gpus] == [str(i) for i in range(8)]
    assert all("20.0/80.0 GiB" in line and "37 %" in line and "51 C" in line and "300/700 W" in line for line in gpus)
    assert sum(f"job {first} steps" in line for line in gpus) == 2 and sum("free" in line for line in gpus) == 6

    def row(job):
        return next((line for line in desk.lines() if re.match(rf"[▸ ] {job} +[a-z]", line)), "")

    desk.until(lambda: all(text in row(second) for text in ("ready", "(7)", "patient")))
    desk.until(lambda: all(text in row(third) for text in ("failed", "exit status 3")))

    def step():
        found = re.search(r" (\d+)/2000 +0.5 +5210 +0:58", row(first))
        return int(found[1]) if found else 0

    seen = desk.until(step)
    desk.until(lambda: step() > seen + 3)
    desk.until(lambda: re.search(rf"log of {first}: steps[\s\S]*step \d+/2000  loss 0.5", desk.screen()))


def test_a_job_that_is_stopped_by_its_key_really_ends(desk):
    (keeps,) = desk.submit("sleep", "1000", options=["-n", 1])
    (ends,) = desk.submit("sh", "-c", "echo $$; exec sleep 1000", options=["-n", 1])
    (waits,) = desk.submit("sleep", "1000", options=["-n", 8])
    pid = desk.until(lambda: desk.run("logs", ends).stdout.strip())
    desk.open()
    desk.until(lambda: desk.selected() == keeps)
    desk.keys("j")
    desk.until(lambda: desk.selected() == ends)
    desk.keys("s")
    desk.shows(f"stop {ends} (sh -c 'echo $$; exec sleep 1000')? y/n")
    desk.keys("n")
    desk.shows("q quit")
    assert os.path.exists(f"/proc/{pid}")
    desk.keys("s", "y")
    desk.shows(f"job {ends} was asked to end")
    desk.until(lambda: not os.path.exists(f"/proc/{pid}"))
    desk.until(lambda: desk.states()[ends] == "cancelled")
    assert desk.states()[keeps] == "running" and desk.states()[waits] == "ready"
    # One that waits is taken out of the line, also if the view is left at once.
    desk.shows("▸ " + ends + "  cancelled")
    desk.keys("k")
    desk.until(lambda: desk.selected() == waits)
    desk.shows("wants 8 GPUs; 7 of 8 free", f"{keeps} has GPU 0, end time unknown")
    desk.keys("s", "y", "q")
    desk.is_restored()
    desk.until(lambda: desk.states()[waits] == "cancelled")
    assert desk.states()[keeps] == "running"


def test_a_command_that_holds_gpus_beside_the_queue_is_shown_and_can_be_stopped(desk):
    holder = subprocess.Popen([str(desk.program), "gpus", "hold", "-n", "3", "--", "sleep", "1000"], env=desk.environment, cwd=desk.folder)
    try:
        desk.open(width=100)
        desk.shows(f"pid {holder.pid} sleep 1000", "8 GPUs, 3 in use", "0-2")
        desk.keys("s", "y")
        assert holder.wait(timeout=60) == -signal.SIGTERM
        desk.shows("8 GPUs, 0 in use", "no job runs or waits")
    finally:
        holder.kill()
        holder.wait()


def test_resizing_draws_anew(desk):
    desk.submit("sleep", "1000", options=["-n", 1, "--label", "stays"])
    desk.open(width=120, height=30)
    desk.shows("GPU of a test", "stays")
    for width, height in ((80, 24), (40, 10), (80, 24)):
        desk.resize(width, height)

        def is_drawn():
            lines = desk.lines()
            rows = [line for line in lines if "20.0/80.0 GiB" in line]
            dense = re.findall(r"(\d)[* ] 37/25", "\n".join(lines))
            gpus = len(rows) == 8 if height == 24 else dense == [str(i) for i in range(8)]
            job = any(line.startswith("▸ 1 ") and "stays" in line for line in lines)
            return (len(lines) == height and max(map(len, lines)) <= width and gpus and job and lines[0].startswith("muster top")
                    and lines[-1].startswith("q quit"))

        try:
            desk.until(is_drawn)
        except AssertionError:
            raise AssertionError(f"at {width} x {height}:\n{desk.screen()}") from None
    desk.keys("q")
    assert "ended with 0" in desk.is_restored()


def test_without_a_gpu_it_says_so_and_shows_jobs(desk):
    desk.gpus(0)
    desk.submit("sleep", "1000", options=["-n", 0, "--label", "patient"])
    desk.open()
    screen = desk.shows("no GPU", "0 GPUs, 0 in use", "patient", "running")
    assert "MEMORY" not in screen


def test_two_hundred_jobs_are_scrolled_and_filtered(desk):
    desk.submit("sleep", "1000", options=["-n", 8, "--label", "first"])
    jobs = desk.submit(options=["-n", 8], text="sleep 1000 # number {1..199}\n")
    assert len(jobs) == 199
    desk.open()
    desk.shows("1 running, 199 waiting, 0 ended")
    desk.until(lambda: desk.selected() == "1")
    desk.keys("End")
    desk.until(lambda: desk.selected() == "200")
    desk.until(lambda: "number 199" in (screen := desk.screen()) and "number 100" not in screen)
    desk.keys("PageUp")
    desk.until(lambda: 190 < int(desk.selected() or 200) < 200)
    desk.keys("Home")
    desk.until(lambda: desk.selected() == "1")
    desk.keys("/", "Number 17")
    desk.until(lambda: desk.selected() == "18")
    screen = desk.shows("/Number 17", "number 17\n", "number 170")
    assert "number 18" not in screen and " first " not in screen
    desk.keys("Enter")
    desk.shows("[Number 17]")
    desk.keys("Escape")
    desk.keys("Home")
    desk.until(lambda: desk.selected() == "1")


def test_a_log_is_followed_on_the_whole_screen(desk):
    (job,) = desk.submit("sh", "-c", "for i in $(seq 1 1000); do echo line $i; sleep 0.05; done", options=["-n", 0])
    desk.open()
    desk.until(lambda: desk.selected() == job)
    desk.keys("Enter")
    desk.shows("Esc back", f"log of {job}")

    def last():
        found = re.findall(r"^line (\d+)$", desk.screen(), re.MULTILINE)
        return int(found[-1]) if found else 0

    seen = desk.until(lambda: last() > 21 and last())
    desk.until(lambda: last() > seen)
    desk.until(lambda: len(re.findall(r"^line \d+$", desk.screen(), re.MULTILINE)) == 21)
    desk.keys("Escape")
    desk.shows("q quit", "MEMORY")


def test_the_terminal_is_restored_however_it_ends(desk):
    for end, status in ((lambda: desk.keys("q"), 0), (lambda: desk.keys("C-c"), 130),
                        (lambda: os.kill(desk.top_pid(), signal.SIGTERM), 143), (lambda: os.kill(desk.top_pid(), signal.SIGSEGV), 139)):
        desk.open()
        end()
        assert f"ended with {status}" in desk.is_restored()


def test_ctrl_z_gives_the_terminal_back_for_a_while(desk):
    desk.open()
    desk.keys("C-z")
    desk.shows("before", "Stopped")
    assert desk.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}").split() == ["0", "1"]
    desk.keys("fg", "Enter")
    desk.shows("q quit", "MEMORY")
    desk.keys("q")
    desk.is_restored()


def test_a_source_of_gpus_that_hangs_stops_nobody(desk):
    desk.submit("sleep", "1000", options=["-n", 0, "--label", "patient"])
    del desk.environment["MUSTER_GPUS"]
    desk.environment["MUSTER_NVML_LIBRARY"] = str(desk.program.parents[2] / "nvml_stub/new/libnvidia-ml.so.1")
    desk.environment["MUSTER_NVML_STUB_FAIL"] = "hang"
    desk.open()
    desk.shows("patient", "running")
    desk.shows("the driver has not answered for")
    desk.keys("q")
    assert "ended with 0" in desk.is_restored()


def test_colour_is_left_out_where_it_is_not_wanted(desk):
    desk.environment["NO_COLOR"] = "1"
    desk.open()
    assert "\033[3" not in desk.tmux("capture-pane", "-p", "-e")
    del desk.environment["NO_COLOR"]
    desk.open()
    assert "\033[3" in desk.tmux("capture-pane", "-p", "-e")


def test_what_has_no_screen_is_told_of_once(desk):
    piped = desk.run("top", status=3)
    assert "standard output is not a terminal" in piped.stderr and "muster top --once" in piped.stderr
    desk.open_terminal()
    desk.keys(f"TERM=dumb {desk.program} top", "Enter")
    desk.shows("TERM=dumb)", "muster top --once")


def test_once_prints_everything_and_starts_nothing(desk):
    text = desk.run("top", "--once").stdout
    assert "8 GPUs, 0 in use" in text and text.count("GPU of a test") == 8
    assert not (desk.folder / "state").exists()
    (job,) = desk.submit(sys.executable, "-c", "import time; print('halfway'); time.sleep(1000)", options=["-n", 2, "--label", "größer"])
    (late,) = desk.submit("true", options=["-n", 8, "--after-ok", job])
    desk.until(lambda: desk.states()[job] == "running")
    sample = json.loads(desk.run("top", "--once", "--json").stdout)
    assert [gpu["job"] for gpu in sample["gpus"]] == [job, job] + [None] * 6
    assert [gpu["lease"] is not None for gpu in sample["gpus"]] == [True, True] + [False] * 6
    assert [(row["id"], row["state"], row["gpus"], row["label"]) for row in sample["jobs"]] == [
        (job, "running", [0, 1], "größer"), (late, "waiting", [], "")]
    assert sample["counts"] == {"running": 1, "waiting": 1, "settled": 0} and sample["notes"] == []
    assert sample["gpus_silent_seconds"] is None
    assert "größer" in desk.run("top", "--once").stdout


def test_a_run_of_a_queued_job_tells_its_progress(desk):
    """The files of a run count, wherever it is and whoever started it."""
    run = desk.folder / "elsewhere/sums-1"
    (run / "logs").mkdir(parents=True)
    (run / "run.json").write_text("{}")
    (run / "events.jsonl").write_text('{"time":"2026-08-01T14:03:09.250Z","event":"attempt","attempt":1,"steps":40}\n')
    (run / "metrics.csv").write_text("step,loss,seconds,tokens_per_second\n9,1.5,2,300\n10,1.25,2,310\n")
    script = f"import fcntl, time; f = open({str(run / 'lock')!r}, 'w'); fcntl.flock(f, fcntl.LOCK_EX); time.sleep(1000)"
    (job,) = desk.submit("sh", "-c", f"exec 3>&1; {sys.executable} -c \"$0\"; true", script, options=["-n", 0])

    def progress():
        (row,) = json.loads(desk.run("top", "--once", "--json").stdout)["jobs"]
        return row["run"] and row["progress"]

    assert desk.until(progress) == {"step": 10, "total": 40, "loss": 1.25, "tokens_per_second": 310.0, "seconds_left": 60.0}


def test_a_file_of_gpus_that_is_missing_or_wrong_is_refused(desk):
    assert "nowhere.yaml" in desk.run("top", "--once", "--gpus-from", "nowhere.yaml", status=2).stderr
    (desk.folder / "wrong.yaml").write_text("gpus: 3\n")
    assert "wrong.yaml" in desk.run("top", "--once", "--gpus-from", str(desk.folder / "wrong.yaml"), status=2).stderr


def test_intervals_that_make_no_sense_are_refused(desk):
    assert "ten times a second" in desk.run("top", "--interval", "1ms", status=2).stderr
    assert "--interval" in desk.run("top", "--interval", "soon", status=2).stderr
    assert "muster top --once --json" in desk.run("top", "--json", status=2).stderr
