"""The program that renders templates, and the same done by transformers."""

import copy
import datetime
import json
import os
import pathlib
import subprocess
import threading

from transformers.utils import chat_template_utils

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAMS", ROOT / "build/engine/tests")) / "template_driver"
ADDRESSES = (" object at 0x", "<function", "<built-in", "bound method", "<generator", "_iterator", "<class", "<Macro")
NOW = datetime.datetime(2024, 7, 26, 13, 5, 9)


class TemplateDriver:
    def __init__(self):
        self.process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, template: str, variables: dict, **options) -> dict:
        return self.all([{"template": template, "variables": variables, **options}])[0]

    def all(self, orders: list[dict]) -> list[dict]:
        """The answers to many orders, which are sent while the first answers come back."""

        def send():
            for order in orders:
                self.process.stdin.write(json.dumps({"now": list(NOW.timetuple()[:6]), **order}) + "\n")
            self.process.stdin.flush()

        sender = threading.Thread(target=send)
        sender.start()
        answers = [json.loads(self.process.stdout.readline()) for _ in orders]
        sender.join()
        return answers

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def render_with_transformers(template: str, variables: dict) -> dict:
    """As apply_chat_template does it; spans in bytes."""
    compiled = chat_template_utils._compile_jinja_template(template)
    variables = copy.deepcopy(variables)  # a filter may change a list in place
    given = [variables.pop(name, None) for name in ("messages", "tools", "documents", "add_generation_prompt")]
    text, spans = chat_template_utils._render_with_assistant_indices(compiled, *given, **variables)
    return {"text": text, "generated": [[len(text[:end].encode()) for end in span] for span in spans]}


def check_like_transformers(driver: TemplateDriver, orders: list[tuple[str, str, dict]]) -> int:
    """Compares every (what, template, variables); how many of them rendered. An error must be one on both sides; texts
    with the addresses of Python's objects are left out."""
    answers = driver.all([{"template": template, "variables": variables} for _, template, variables in orders])
    rendered = 0
    for (what, template, variables), got in zip(orders, answers):
        try:
            expected = render_with_transformers(template, variables)
        except Exception as failure:  # whatever Python raises, the template has failed
            assert "error" in got, f"{what}: transformers fails with {failure!r}, muster renders {got}"
        else:
            if not any(mark in expected["text"] for mark in ADDRESSES):
                assert got == expected, f"{what}: {template}"
                rendered += 1
    return rendered
