"""Files that other people wrote: what is in them is shown, never obeyed, and reading them comes to an end."""

import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAM", ROOT / "build/engine/apps/cli/muster"))
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m‮\x7fevil"
# All that may reach a terminal: text, line ends and tabs.
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f‪-‮⁦-⁩]")


def muster(*words: str, folder: pathlib.Path, **variables: str) -> subprocess.CompletedProcess:
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "CUDA_", "HF_"))}
    settings |= {"MUSTER_GPUS": str(folder / "gpus.yaml"), "MUSTER_STATE": str(folder / "state")}
    settings |= {"MUSTER_LEASE_DIR": str(folder / "leases"), "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        [PROGRAM, *words], env=settings | variables, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=120
    )


def model_folder(place: pathlib.Path, **files: object) -> pathlib.Path:
    place.mkdir(parents=True)
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (place / f"{name}.json").write_text(text)
    return place


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "gpus.yaml").write_text("gpus: []\n")
    return tmp_path


def cases(folder: pathlib.Path) -> list[list[str]]:
    """Command lines that meet hostile text, wherever a file or a name can hold some."""
    tokenizer = {"model": {"type": HOSTILE, "vocab": {}}, "added_tokens": []}
    template = {"chat_template": "{{ raise_exception('" + HOSTILE + "') }}"}
    good = {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}
    typed = model_folder(folder / "typed", config={"model_type": HOSTILE}, tokenizer=tokenizer)
    failing = model_folder(folder / "failing", tokenizer={"model": good, "added_tokens": []}, tokenizer_config=template)
    named = model_folder(folder / HOSTILE, config="{")
    (folder / "prompts.jsonl").write_text(json.dumps({"messages": [{"role": "user", "content": "a"}]}) + "\n")
    (folder / "run.yaml").write_text(f"model: {{{json.dumps(HOSTILE)}: 1}}\n")
    (folder / "bad.yaml").write_text(f"a: 1\na{HOSTILE}: [\n")
    inventory = {"gpus": [{"memory_total": "8GiB", "name": HOSTILE}]}
    (folder / "evil.yaml").write_text(json.dumps(inventory))
    (folder / "unknown.yaml").write_text(json.dumps({"gpus": [{HOSTILE: 1}]}))
    (folder / "sweep.yaml").write_text(json.dumps({HOSTILE: 1}))
    (folder / "runs" / HOSTILE).mkdir(parents=True)
    (folder / "runs" / HOSTILE / "run.json").write_text("{}")
    (folder / "runs" / HOSTILE / "model").mkdir()
    (folder / "runs" / HOSTILE / "spec.yaml").write_text(json.dumps({"experiment": {"description": HOSTILE}}))
    (folder / "value.yaml").write_text(json.dumps({"experiment": {"description": HOSTILE}}))
    tried = {"method": "grid", "metric": "loss", "goal": "minimize", "parameters": {"text": [HOSTILE]}, "limits": {"trials": 1}}
    (folder / "good.yaml").write_text(json.dumps(tried | {"command": ["sh", "-c", "echo loss=1", "-", "${args}"]}))
    (folder / "lost.yaml").write_text(json.dumps(tried | {"command": ["sh", "-c", 'echo "$1"; exit 7', "-", HOSTILE]}))
    return [
        ["tokenize", "-m", str(typed), "-p", "prompts.jsonl"],
        ["tokenize", "-m", str(failing), "-p", "prompts.jsonl"],
        ["plan", "-m", str(typed)],
        ["plan", "-m", str(named)],
        ["generate", "-m", str(named), "-p", "prompts.jsonl"],
        ["model", "list", "--models", str(folder)],
        ["config", "-c", "run.yaml"],
        ["config", "-c", "bad.yaml"],
        ["config", "-c", HOSTILE],
        ["gpus", "--gpus-from", "evil.yaml"],
        ["gpus", "--gpus-from", "unknown.yaml"],
        ["sweep", "sweep.yaml"],
        ["run", "bad.yaml"],
        ["runs", "--output", str(folder / "runs")],
        ["runs", HOSTILE],
        ["launch", "--dry-run", HOSTILE],
        ["queue", "why", HOSTILE],
        ["doctor", "--gpus-from", "evil.yaml"],
        ["config", "-c", "value.yaml"],
        ["train", "-c", "value.yaml", "--print-config"],
        ["runs", "show", HOSTILE, "--output", str(folder / "runs")],
        ["runs", "compare", HOSTILE, HOSTILE, "--output", str(folder / "runs")],
        ["sweep", "good.yaml", "--device", "cpu"],
        ["sweep", "best", "good"],
        ["sweep", "lost.yaml", "--device", "cpu"],
        # As JSON, too.
        ["doctor", "--gpus-from", "evil.yaml", "--json"],
        ["gpus", "--gpus-from", "evil.yaml", "--json"],
        ["config", "-c", "value.yaml", "--json"],
        ["runs", "--output", str(folder / "runs"), "--json"],
        ["runs", "show", HOSTILE, "--output", str(folder / "runs"), "--json"],
        ["sweep", "best", "good", "--json"],
        ["top", "--once", "--gpus-from", "evil.yaml"],
        ["top", "--once", "--gpus-from", "evil.yaml", "--json"],
    ]


def test_no_control_character_of_a_file_reaches_the_terminal(folder: pathlib.Path):
    shown = 0
    for words in cases(folder):
        done = muster(*words, folder=folder)
        text = (done.stdout + done.stderr).decode()
        assert FORBIDDEN.search(text) is None, (words, text)
        shown += "\\x1b" in text or "\\u001b" in text
    assert shown >= 26, "the cases no longer print what is in the files"


def test_what_is_escaped_reads_back_as_it_was(folder: pathlib.Path):
    (folder / "value.yaml").write_text(json.dumps({"experiment": {"description": HOSTILE}}))
    (folder / "evil.yaml").write_text(json.dumps({"gpus": [{"memory_total": "8GiB", "name": HOSTILE}]}))
    listed = json.loads(muster("gpus", "--gpus-from", "evil.yaml", "--json", folder=folder).stdout)
    assert listed["gpus"][0]["name"] == HOSTILE
    (folder / "again.yaml").write_bytes(muster("config", "-c", "value.yaml", folder=folder).stdout)
    values = json.loads(muster("config", "-c", "again.yaml", "--json", folder=folder).stdout)
    assert json.loads(values["experiment.description"]["value"]) == HOSTILE


def test_the_best_settings_of_a_sweep_are_overrides_that_mean_what_was_tried(folder: pathlib.Path):
    spec = {"method": "grid", "metric": "loss", "goal": "minimize", "parameters": {"experiment.description": [HOSTILE]}}
    (folder / "s.yaml").write_text(json.dumps(spec | {"limits": {"trials": 1}, "command": ["echo", "loss=1"]}))
    assert muster("sweep", "s.yaml", "--device", "cpu", folder=folder).returncode == 0
    (best,) = json.loads(muster("sweep", "best", "s", "--json", "--patch", "best.yaml", folder=folder).stdout)
    for words in (best["overrides"], ["-c", "best.yaml"]):
        values = json.loads(muster("config", *words, "--json", folder=folder).stdout)
        assert json.loads(values["experiment.description"]["value"]) == HOSTILE


@pytest.mark.parametrize("words", [["config", "-c"], ["gpus", "--gpus-from"], ["run"], ["sweep"]])
def test_what_has_no_end_is_refused(folder: pathlib.Path, words: list[str]):
    os.mkfifo(folder / "pipe")
    for path, problem in (("/dev/zero", "device"), (str(folder / "pipe"), "named pipe")):
        done = muster(*words, path, folder=folder)
        assert done.returncode == 2, done.stderr
        assert problem in done.stderr.decode(), done.stderr


def test_a_configuration_may_come_from_a_process(folder: pathlib.Path):
    """muster config -c <(command), as a shell passes it."""
    script = f'"{PROGRAM}" config -c <(echo "model: {{path: here}}")'
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    done = subprocess.run(
        ["bash", "-c", script], env=environment | {"MUSTER_GPUS": str(folder / "gpus.yaml")}, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert b"here" in done.stdout
