"""The Tab key, in the shells themselves."""

import os
import pty
import select
import shutil
import subprocess
import time

import pytest


@pytest.fixture
def shell_folder(muster, tmp_path):
    commands = tmp_path / "commands"
    commands.mkdir()
    (commands / "muster").symlink_to(muster.program)
    (tmp_path / "rows.jsonl").touch()
    (tmp_path / "run.yaml").touch()
    muster.environment["PATH"] = f"{commands}:{muster.environment['PATH']}"
    return tmp_path


# What is typed, what must be offered, what must not.
CASES = [
    ("muster tr", {"train"}, {"generate"}),
    ("muster gpus p", {"pick"}, {"hold"}),
    ("muster he", {"help"}, {"train"}),
    ("muster help sw", {"sweep", "sweep-multi"}, {"train"}),
    ("muster train --str", {"--strategy"}, {"--seed"}),
    ("muster train --strategy f", {"fsdp"}, {"ddp"}),
    ("muster train train", {"training."}, set()),
    ("muster train training.max_s", {"training.max_steps="}, {"training.batch_size="}),
    ("muster train training.lr_scheduler=cos", {"cosine"}, {"linear"}),
    ("muster train ru", {"run.yaml"}, {"rows.jsonl"}),
    ("muster train --data ro", {"rows.jsonl"}, {"run.yaml"}),
    ("muster completion f", {"fish"}, {"bash"}),
    ("muster launch --device c", {"cpu", "cuda"}, {"auto"}),
    ("muster queue w", {"why"}, {"conduct"}),
]


def complete_in_bash(muster, folder, line):
    script = f"""
source <(muster completion bash)
COMP_LINE={line!r}
COMP_POINT=${{#COMP_LINE}}
# The words as bash itself cuts them: at blanks, and around = and :.
COMP_WORDS=()
for word in $COMP_LINE; do
  while [[ $word == *[=:]* ]]; do
    head=${{word%%[=:]*}}
    [[ -n $head ]] && COMP_WORDS+=("$head")
    COMP_WORDS+=("${{word:${{#head}}:1}}")
    word=${{word:${{#head}}+1}}
  done
  COMP_WORDS+=("$word")
done
if [[ $COMP_LINE == *' ' ]]; then COMP_WORDS+=(""); fi
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
compopt() {{ :; }}
_muster
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, cwd=folder, timeout=60,
                          env=muster.environment)
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.parametrize("line,offered,hidden", CASES)
def test_bash_is_offered_what_could_come_next(muster, shell_folder, line, offered, hidden):
    found = complete_in_bash(muster, shell_folder, line)
    assert offered <= found
    assert not hidden & found


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize("line,offered,hidden", CASES)
def test_fish_is_offered_what_could_come_next(muster, shell_folder, line, offered, hidden):
    muster.environment["HOME"] = str(shell_folder)
    done = subprocess.run(["fish", "--no-config", "-c", f"muster completion fish | source; complete -C {line!r}"],
                          capture_output=True, text=True, cwd=shell_folder, timeout=60, env=muster.environment)
    found = {row.split("\t")[0].rpartition("=")[2] or row.split("\t")[0] for row in done.stdout.splitlines()}
    found |= {row.split("\t")[0] for row in done.stdout.splitlines()}
    assert offered <= found, done.stderr
    assert not hidden & found


class Terminal:
    """A shell on a terminal, and the Tab key."""

    def __init__(self, arguments, environment, folder):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(arguments[0], arguments, environment)
        self.seen = ""

    def type(self, text: str):
        os.write(self.terminal, text.encode())

    def read_until(self, word: str, seconds: float = 60) -> str:
        end = time.monotonic() + seconds
        while word not in self.seen and time.monotonic() < end:
            if select.select([self.terminal], [], [], 0.1)[0]:
                self.seen += os.read(self.terminal, 65536).decode(errors="replace").replace("\a", "")
        assert word in self.seen, self.seen
        seen, self.seen = self.seen, ""
        return seen

    def close(self):
        os.close(self.terminal)
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(muster completion bash)"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit && compinit -D -u && source <(muster completion zsh)"),
}


@pytest.mark.parametrize("shell", [
    "bash", pytest.param("zsh", marks=pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed"))])
@pytest.mark.parametrize("typed,word", [
    ("muster compl", "completion"),
    ("muster train --strategy pipe", "pipeline"),
    ("muster train training.max_st", "training.max_steps="),
    ("muster train training.lr_scheduler=cosi", "training.lr_scheduler=cosine"),
    ("muster train run.y", "run.yaml"),
    ("muster plan --gpus-from=rows.j", "--gpus-from=rows.jsonl"),
])
def test_the_tab_key_writes_the_rest_of_a_word(muster, shell_folder, shell, typed, word):
    arguments, setup = SHELLS[shell]
    environment = {**muster.environment, "TERM": "dumb", "PS1": "$ ", "HOME": str(shell_folder)}
    terminal = Terminal(arguments, environment, shell_folder)
    try:
        terminal.type(f"{setup}; echo re''ady\r")
        terminal.read_until("ready\r\n")
        terminal.type(f"{typed}\t")
        terminal.read_until(word)
    finally:
        terminal.close()
