"""The commands of a page, in order, with the output that it shows.

A block of ```sh is commands; one of ```console has commands after "$ ", and below each what it prints. Anything else is not
for pasting. In a console block:

    $ muster gpus pick -n 9            # exit code 3      the status that is expected, where it is not 0
    $ muster top                       # q quits          typed into its terminal, key by key
    $ muster generate --interactive                       lines after "> " are typed into its terminal
    > a question
    an answer

A command that shows nothing may print anything. Shown output holds in full: a line "…" stands for any lines, "…" within a line
for any text, and a time, a date, a speed or a process id for any other.
"""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Step:
    line: int  # of the page
    command: str
    status: int = 0
    typed: list[str] = field(default_factory=list)  # lines, or one key without an end of line
    keys: str = ""
    shown: list[str] | None = None  # nothing: anything may be printed


def is_whole(command: str) -> bool:
    """Whether bash would begin to run it, and not wait for more lines."""
    if command.endswith("\\"):
        return False
    checked = subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True, timeout=60)
    return "unexpected end of file" not in checked.stderr and "unexpected EOF" not in checked.stderr \
        and "here-document" not in checked.stderr


def step_of(line: int, command: str) -> Step:
    step = Step(line, command)
    if status := re.search(r"#.*\bexit code (\d+)", command):
        step.status = int(status[1])
    if key := re.search(r"#.*?\b(\w) quits", command):
        step.keys = key[1]
    return step


def blocks(text: str):
    """(language, number of its first line, lines)"""
    language, first, lines = None, 0, []
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"^\s*```(\w*)\s*$", line)
        if fence and language is None:
            language, first, lines = fence[1] or "text", number + 1, []
        elif fence:
            yield language, first, lines
            language = None
        elif language is not None:
            lines.append(line)


def shell_steps(first: int, lines: list[str]):
    pending, begun = "", first
    for number, line in enumerate(lines, first):
        if not pending and (not line.strip() or line.lstrip().startswith("#")):
            continue
        begun = begun if pending else number
        pending = f"{pending}\n{line}" if pending else line
        if is_whole(pending):
            yield step_of(begun, pending)
            pending = ""
    if pending:
        yield step_of(begun, pending)


def console_steps(first: int, lines: list[str]):
    step = None
    for number, line in enumerate(lines, first):
        if line.startswith("$ "):
            if step:
                yield step
            step = step_of(number, line[2:])
        elif step is None:
            raise ValueError(f"line {number}: a console block begins with a command: {line!r}")
        elif step.shown is None and not is_whole(step.command):
            step = step_of(step.line, step.command + "\n" + line.removeprefix("> "))
        elif line.startswith("> "):
            step.typed.append(line[2:])
            step.shown = [*(step.shown or []), line]
        else:
            step.shown = [*(step.shown or []), line]
    if step:
        yield step


def steps_of(page: Path) -> list[Step]:
    found = []
    for language, first, lines in blocks(page.read_text()):
        if language in ("sh", "bash"):
            found += shell_steps(first, lines)
        elif language == "console":
            found += console_steps(first, lines)
    return found


# What differs from one run to the next.
VARIABLE = [
    (r"\b\d{8}-\d{6}\b", "DATE"),
    (r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?Z?\b", "DATE"),
    (r"\b\d[\d.,]* (tokens|samples|answers|steps|prompts|MiB|MB|GB|GiB|kB)/s\b", r"SPEED \1/s"),
    (r"\b\d+(\.\d+)? (ms|s|min|h|d)\b", "TIME"),
    (r"\b\d+:\d\d(:\d\d)?\b", "TIME"),
    (r"\bpid \d+\b", "pid N"),
    (r"\x1b\[[0-9;?]*[A-Za-z]", ""),
]


def settled(line: str) -> str:
    for pattern, word in VARIABLE:
        line = re.sub(pattern, word, line)
    return line.rstrip()


def fits_line(shown: str, printed: str) -> bool:
    parts = [re.escape(part) for part in settled(shown).split("…")]
    return re.fullmatch(".*".join(parts), settled(printed)) is not None


def fits(shown: list[str], printed: list[str]) -> bool:
    if not shown:
        return not printed
    if shown[0].strip() == "…":
        return any(fits(shown[1:], printed[skip:]) for skip in range(len(printed) + 1))
    return bool(printed) and fits_line(shown[0], printed[0]) and fits(shown[1:], printed[1:])
