"""What a newcomer reads: muster, --help, help COMMAND, man pages, and the answers to typing errors."""

import re
import shutil
import subprocess
import unicodedata

import pytest

COMMANDS = [
    "", "train", "generate", "evaluate", "collect", "runs", "runs list", "runs show", "runs compare", "model", "model get", "model list",
    "serve-environments", "model convert", "model merge", "tokenize", "plan", "gpus", "gpus pick", "gpus hold", "top", "doctor", "launch", "submit", "queue",
    "queue why", "queue forget", "queue repair", "logs", "stop", "wait", "run", "sweep", "sweep best", "sweep serve", "sweep-multi", "config",
    "completion", "man",
]


def columns(line: str) -> int:
    return sum(0 if unicodedata.combining(letter) else 1 for letter in line)


def commands_in(text: str) -> list[str]:
    """The names under headings that list commands."""
    found, lists = [], False
    for line in text.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            lists = line in ("Models:", "GPUs and this machine:", "Many jobs:", "Settings and help:", "Commands:")
        elif lists and (name := re.match(r"  ([a-z-]+)(  |$)", line)):
            found.append(name[1])
    return found


def test_the_list_of_commands_above_is_whole(muster):
    listed = commands_in(muster("--help").stdout)
    assert sorted(listed) == sorted({name.split()[0] for name in COMMANDS if name})
    for command in listed:
        below = commands_in(muster(command, "--help").stdout)
        assert sorted(below) == sorted(name.split()[1] for name in COMMANDS if name.startswith(command + " ")), command


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_a_purpose_a_usage_and_an_example_and_fits_the_terminal(muster, command):
    for width in (60, 80, 140):
        text = muster(*command.split(), "--help", COLUMNS=str(width)).stdout
        lines = text.splitlines()
        spoken = f"muster {command}".strip()
        assert 10 < columns(lines[0]), "one line of purpose"
        assert f"Usage: {spoken} [OPTIONS]" in text
        assert spoken in text.partition("\nExamples:\n")[2], "an example of its own"
        assert "Exit codes: 0 done" in text
        examples = text.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
        too_wide = [line for line in lines if columns(line) > min(width, 120) and line not in examples]
        assert too_wide == [], width
    assert muster("help", *command.split()).stdout == muster(*command.split(), "--help").stdout


def test_help_of_a_narrow_terminal_is_readable(muster):
    text = muster("train", "--help", COLUMNS="20").stdout
    assert "\n  -c, --config FILE\n      YAML or JSON file" in text


def test_options_are_shown_by_group(muster):
    text = muster("train", "--help").stdout
    headings = [line for line in text.splitlines() if re.fullmatch(r"[A-Z][\w ]+:", line)]
    assert headings == ["Arguments:", "Options:", "Devices:", "Model:", "Training:", "Run:", "Examples:"]
    training = text.partition("\nTraining:\n")[2].partition("\n\n")[0]
    assert [key for key in ("--data", "--lr", "--epochs") if key in training] == ["--data", "--lr", "--epochs"]
    for key in ("data.path", "training.learning_rate", "training.num_epochs"):
        assert f"({key})" in " ".join(training.split())


def test_version_has_a_short_form(muster):
    assert muster("-V").stdout == muster("--version").stdout
    assert re.fullmatch(r"muster \d+\.\d+\.\d+\n", muster("-V").stdout)


@pytest.mark.parametrize("words,expected", [
    (["trian"], ['there is no command "trian"', "muster train"]),
    (["help", "trian"], ['there is no command "trian"', "muster train"]),
    (["hlep"], ["muster help"]),
    (["train", "--epoch", "1"], ["muster train has no option --epoch", "--epochs"]),
    (["gpus", "pick", "--num-gpu=2"], ["muster gpus pick has no option --num-gpu=2", "--num-gpus"]),
    (["gpus", "pikc"], ['"pikc" is not expected', "muster gpus pick"]),
    (["generate", "--lr", "1"], ["muster generate has no option --lr"]),
    (["man", "gpus", "pikc"], ['muster gpus has no command "pikc"']),
    (["completion", "tcsh"], ["tcsh"]),
])
def test_typing_errors_are_answered_with_what_was_meant(muster, words, expected):
    result = muster(*words)
    assert result.returncode == 2
    for word in expected:
        assert word in result.stderr


# ---- a configuration file as a word, and the short options of training ----


@pytest.fixture
def run_file(tmp_path):
    (tmp_path / "run.yaml").write_text("training: {max_steps: 7, learning_rate: 0.5}\n")
    return "run.yaml"


def test_train_takes_a_configuration_file_as_run_and_plan_do(muster, run_file):
    printed = muster("train", run_file, "training.max_steps=8", "--print-config").stdout
    assert re.search(r"max_steps: 8 .*command line|max_steps: 8", printed)
    assert "learning_rate: 0.5" in printed
    assert "learning_rate: 0.5" in muster("config", run_file).stdout


def test_two_configuration_files_are_one_too_many(muster, run_file):
    for words in (["--config", run_file, "other.yaml"], [run_file, "other.yaml"]):
        result = muster("train", *words)
        assert result.returncode == 2 and "two configuration files: run.yaml and other.yaml" in result.stderr


def test_a_configuration_file_that_is_missing_is_named(muster):
    result = muster("train", "missing.yaml")
    assert result.returncode == 2 and "missing.yaml" in result.stderr


def test_short_options_of_training_are_settings(muster, run_file):
    printed = muster("train", run_file, "-m", "builtin:llama-0.2m", "--data", "rows.jsonl", "--lr", "2e-3", "--epochs", "3", "--print-config").stdout
    assert "path: rows.jsonl" in printed and "num_epochs: 3" in printed
    assert re.search(r"learning_rate: 0\.002\b", printed)


# ---- man pages ----


@pytest.fixture
def pages(muster, tmp_path):
    done = muster("man", "--folder", "man/man1")
    assert done.returncode == 0, done.stderr
    return tmp_path / "man/man1"


def test_every_command_has_a_man_page(pages, muster):
    expected = sorted("-".join(["muster", *command.split()]) + ".1" for command in COMMANDS)
    assert sorted(page.name for page in pages.iterdir()) == expected
    assert muster("man", "gpus", "pick").stdout == (pages / "muster-gpus-pick.1").read_text()


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_man_pages_are_right_roff_and_say_what_help_says(pages, muster):
    for page in sorted(pages.iterdir()):
        done = subprocess.run(["groff", "-man", "-Kutf8", "-Tutf8", "-ww", "-rLL=100n", str(page)], capture_output=True,
                              text=True, timeout=60)
        assert done.returncode == 0 and done.stderr == "", page.name
        shown = re.sub(r"\x1b\[\d*m|.\x08", "", done.stdout)
        words = page.stem.split("-", 1)[1:]
        assert "EXAMPLES" in shown and "EXIT STATUS" in shown, page.name
        command = next(one for one in COMMANDS if "-".join(one.split()) == (words[0] if words else ""))
        options = re.findall(r"^  (?:-\w, )?(--[\w-]+)", muster(*command.split(), "--help", COLUMNS="120").stdout, re.M)
        assert options and [option for option in options if option not in shown] == [], page.name
