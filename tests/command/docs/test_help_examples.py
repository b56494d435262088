"""Every example that help shows runs."""

import re
import subprocess

import pytest
from shell_session import BUILD

MUSTER = BUILD / "apps/cli/muster"

# What the examples are about: a run, a sweep, a model, and GPUs that exist in a file.
BEFORE = [
    "export MUSTER_GPUS=examples/eight_gpus.yaml",
    "muster model get smollm2",
    "muster train training.max_steps=2 --device cpu",
    "muster train -m runs/*/model --data builtin:arithmetic model.use_lora=true training.max_steps=2 --device cpu --name adds",
    "muster sweep examples/sweep.yaml --name pairs --device cpu limits.trials=1",
]

# One of the GPUs in the file is sick, not every model fits them, and a queue that runs is not repaired.
OTHER_ANSWERS = {"doctor": (0, 1), "plan": (0, 3), "queue repair": (0, 3)}


def help_of(*words: str) -> str:
    return subprocess.run([MUSTER, *words, "--help"], capture_output=True, text=True, timeout=60, check=True,
                          env={"COLUMNS": "120", "LANG": "C.UTF-8"}).stdout


def commands() -> list[list[str]]:
    """Those of muster --help, each followed by its own."""
    names = re.findall(r"^  ([a-z-]+)  +[a-z]", help_of(), re.M)
    found = []
    for name in names:
        listed = help_of(name).partition("\nCommands:\n")[2].partition("\n\n")[0]
        found += [[name], *([name, below] for below in re.findall(r"^  ([a-z-]+)  +[a-z]", listed, re.M))]
    return found


def examples_of(words: list[str]) -> list[str]:
    section = help_of(*words).partition("\nExamples:\n")[2].partition("\n\n")[0]
    lines = [re.sub(r"   # .*", "", line).strip() for line in section.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.limit(600)
def test_every_example_of_help_runs(shell):
    for command in BEFORE:
        status, printed = shell.run(command)
        assert status == 0, "\n".join([command, *printed])
    ran, problems = 0, []
    for words in commands():
        examples = examples_of(words)
        assert examples, words
        for line in examples:
            # What would compute for long shows its plan.
            slow = words[0] in ("train", "generate", "evaluate", "collect", "run", "sweep", "sweep-multi") and len(words) == 1
            status, printed = shell.run(line + (" --dry-run" if slow and "--dry-run" not in line else ""))
            if status not in OTHER_ANSWERS.get(" ".join(words), (0,)):
                problems.append("\n".join([f"{line}: exit code {status}", *printed]))
            ran += 1
    assert not problems, "\n\n".join(problems)
    assert ran > 40
