"""The reading of pages, and that a page which is not true does not pass."""

import pytest
from page_blocks import fits, steps_of


@pytest.fixture
def steps(tmp_path):
    def read(text):
        page = tmp_path / "page.md"
        page.write_text(text)
        return steps_of(page)

    return read


def test_blocks_of_sh_are_commands_and_other_blocks_are_not(steps):
    found = steps("Words\n\n```sh\n# a comment\nexport A=1\n\nfor i in 1 2; do\n  echo $i\ndone\necho a \\\n  b\n```\n\n```text\necho no\n```\n")
    assert [(step.line, step.command) for step in found] == [
        (5, "export A=1"), (7, "for i in 1 2; do\n  echo $i\ndone"), (10, "echo a \\\n  b")]
    assert all(step.shown is None and step.status == 0 for step in found)


def test_blocks_of_console_show_what_a_command_prints(steps):
    first, second = steps("```console\n$ echo a; false    # exit code 1\na\n$ cat <<END\n> x\n> END\nx\n```\n")
    assert (first.command, first.status, first.shown) == ("echo a; false    # exit code 1", 1, ["a"])
    assert (second.command, second.shown, second.typed) == ("cat <<END\nx\nEND", ["x"], [])


def test_lines_after_a_prompt_are_typed(steps):
    talk, top = steps("```console\n$ talk\n> Hello?\nHello!\n> /exit\n$ top    # q quits\n```\n")
    assert talk.typed == ["Hello?", "/exit"] and talk.shown == ["> Hello?", "Hello!", "> /exit"]
    assert top.keys == "q" and top.shown is None


@pytest.mark.parametrize("shown,printed", [
    (["a", "b"], ["a", "b"]),
    (["a", "…", "d"], ["a", "b", "c", "d"]),
    (["a", "…"], ["a"]),
    (["took 3 s, … done"], ["took 19.5 s, all done"]),
    (["runs/add-20260101-000000/model"], ["runs/add-20261118-134205/model"]),
    (["12 tokens/s"], ["1,300.5 tokens/s"]),
])
def test_output_fits_what_is_shown(shown, printed):
    assert fits(shown, printed)


@pytest.mark.parametrize("shown,printed", [
    (["a"], ["b"]),
    (["a"], ["a", "b"]),
    (["a", "b"], ["a"]),
    (["a", "…", "d"], ["a", "b"]),
    (["3 of 4 right"], ["2 of 4 right"]),
    (["loss 0.25"], ["loss 0.26"]),
])
def test_output_that_differs_does_not_fit(shown, printed):
    assert not fits(shown, printed)


def test_the_shell_keeps_its_variables_and_tells_statuses_and_output(shell):
    assert shell.run("export PAGE_TEST=kept") == (0, [])
    assert shell.run("echo $PAGE_TEST; echo on errors >&2; (exit 5)") == (5, ["kept", "on errors"])


def test_a_program_on_a_terminal_gets_what_is_typed(shell):
    status, printed = shell.run("printf '> '; read a; echo \"got $a\"; test -t 0", typed=["a line"])
    assert (status, printed) == (0, ["> a line", "got a line"])
    status, printed = shell.run("echo begin; read -n 1 a; echo; echo \"key $a\"", keys="q")
    assert (status, printed[-1]) == (0, "key q")
