"""muster generate --interactive with a scripted worker: turns, ends and interruptions."""

import json
import signal
import subprocess
import termios

import pytest
from terminal import Terminal

BARE = ("-m", "tiny", "model.init=random", "--max-new-tokens", "16", "--device", "cpu", "--interactive")


@pytest.fixture(autouse=True)
def model_that_talks(scripted):
    scripted.text()
    scripted.environment["MUSTER_STATE"] = str(scripted.folder / "state")


def talk(scripted, *more: str) -> Terminal:
    terminal = Terminal(scripted.words(*BARE, *more), scripted.environment, scripted.folder)
    terminal.until("> ")
    return terminal


class TestOnATerminal:
    def test_two_turns_carry_everything_said_before(self, scripted):
        terminal = talk(scripted, "--system", "be brief")
        terminal.type("good morning\n")
        assert terminal.until("\n> ").endswith("gninrom doog\n> ")
        terminal.type("and now\n")
        assert terminal.until("\n> ").endswith("won dna\n> ")
        terminal.type("/exit\n")
        assert terminal.end() == 0
        assignment, requests = scripted.recorded()
        assert assignment["task"]["stream"] and assignment["task"]["batch_size"] == 1
        first = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "good morning"}]
        assert requests[0] == {"messages": first}
        answer = {"role": "assistant", "content": "gninrom doog"}
        assert requests[1] == {"messages": [*first, answer, {"role": "user", "content": "and now"}]}

    def test_the_answer_is_shown_as_it_comes(self, scripted):
        scripted.script(holds="go")
        terminal = talk(scripted)
        terminal.type("c b a\n")
        terminal.until("\na")  # no other word was said so far
        (scripted.folder / "go").touch()
        assert terminal.until("\n> ") == " b c\n> "
        terminal.type("\x04")
        assert terminal.end() == 0

    def test_what_is_typed_during_an_answer_is_the_next_turn(self, scripted):
        scripted.script(pause=0.2)
        terminal = talk(scripted)
        terminal.type("ab cd\n")
        terminal.type("next\n")
        terminal.until("dc ba\n> ")
        terminal.until("txen\n> ")
        terminal.type("/exit\n")
        assert terminal.end() == 0

    def test_ctrl_c_ends_the_answer_and_keeps_what_was_shown_of_it(self, scripted):
        scripted.script(pause=0.5)
        terminal = talk(scripted)
        terminal.type("a b c d e f g h i j k l m n o p\n")
        terminal.until("\np o")
        terminal.type("\x03")
        terminal.until("\n> ")
        terminal.type("next\n")
        terminal.until("txen\n> ")
        terminal.type("/exit\n")
        assert terminal.end() == 0
        kinds = [row.get("order") for row in scripted.rows("record.jsonl")]
        assert kinds == ["assignment", "request", "cancel", "request"]
        messages = json.loads(scripted.rows("record.jsonl")[3]["row"])["messages"]
        assert [message["role"] for message in messages] == ["user", "assistant", "user"]
        assert messages[1]["content"].startswith("p o") and len(messages[1]["content"]) < len("p o n m l k j i h g f e d c b a")

    def test_ctrl_c_at_the_prompt_discards_the_line_and_at_an_empty_one_says_how_to_leave(self, scripted):
        terminal = talk(scripted)
        terminal.type("not this\x03")
        assert "^C" in terminal.until("\n> ")
        terminal.type("\x03")
        assert "/exit or Ctrl-D" in terminal.until("\n> ")
        terminal.type("this\n")
        terminal.until("siht\n> ")
        terminal.type("\x04")
        assert terminal.end() == 0
        assert [row["messages"] for row in scripted.recorded()[1]] == [[{"role": "user", "content": "this"}]]

    def test_lines_are_edited_and_those_of_earlier_conversations_come_back(self, scripted):
        terminal = talk(scripted)
        terminal.type("hlo wörld\x01\x1b[Cel\x05!\x7f?\n")  # Ctrl-A, right; Ctrl-E, Backspace
        terminal.until("\n> ")
        terminal.type("\x1b[200~two\nlines\x1b[201~\n")
        terminal.until("\n> ")
        terminal.type("/exit\n")
        assert terminal.end() == 0
        said = [row["messages"][-1]["content"] for row in scripted.recorded()[1]]
        assert said == ["hello wörld?", "two\nlines"]
        history = scripted.folder / "state" / "conversation_history"
        assert history.stat().st_mode & 0o777 == 0o600
        (scripted.folder / "record.jsonl").unlink()
        terminal = talk(scripted)
        terminal.type("\x1b[A\x1b[A\x1b[A\n")  # /exit, the two lines, the first line
        terminal.until("\n> ")
        terminal.type("\x04")
        assert terminal.end() == 0
        assert scripted.recorded()[1][0]["messages"][-1]["content"] == "hello wörld?"

    def test_the_terminal_is_given_back_as_it_was(self, scripted):
        terminal = Terminal(scripted.words(*BARE), scripted.environment, scripted.folder)
        before = termios.tcgetattr(terminal.controller)
        terminal.until("> ")
        assert not termios.tcgetattr(terminal.controller)[3] & termios.ECHO
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.process.wait(timeout=60) == 143
        assert termios.tcgetattr(terminal.controller)[3] == before[3]
        left = subprocess.run(["pgrep", "-f", f"{scripted.folder}/scripted-worker"], capture_output=True, text=True)
        assert left.stdout == ""

    def test_reset_forgets_what_was_said(self, scripted):
        terminal = talk(scripted)
        terminal.type("one\n")
        terminal.until("eno\n> ")
        terminal.type("/reset\n")
        terminal.until("> ")
        terminal.type("two\n")
        terminal.until("owt\n> ")
        terminal.type("/exit\n")
        assert terminal.end() == 0
        assert scripted.recorded()[1][1] == {"messages": [{"role": "user", "content": "two"}]}


class TestThroughAPipe:
    def test_every_line_is_a_turn_and_only_answers_are_written(self, scripted):
        result = scripted(*BARE, input="ab\n\ncd\n")
        assert (result.returncode, result.stdout, result.stderr) == (0, "ba\ndc\n", "")

    def test_a_model_without_a_chat_template_is_refused_before_anything_starts(self, scripted):
        (scripted.folder / "tiny" / "chat_template.jinja").unlink()
        result = scripted(*BARE, input="ab\n")
        assert result.returncode == 2 and "tiny has no chat template" in result.stderr and result.stdout == ""
        assert not (scripted.folder / "record.jsonl").exists()

    def test_what_the_worker_refuses_is_told_in_its_words(self, scripted):
        scripted.script(refuse=[0])
        result = scripted(*BARE, input="ab\n")
        assert result.returncode == 2 and "no such attention on this device" in result.stderr and result.stdout == ""

    def test_an_answer_that_was_cut_is_told(self, scripted):
        scripted.script(finish="length")
        result = scripted(*BARE, input="ab\n")
        assert result.stdout == "ba\n" and "cut after 2 tokens; --max-new-tokens" in result.stderr
        assert "cut after 1 token; " in scripted(*BARE, input="a\n").stderr
