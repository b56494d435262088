"""The program that renders templates, and the same done by transformers."""

import datetime
import json
import os
import pathlib
import subprocess

from transformers.utils import chat_template_utils

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_TEMPLATE_SPEAKER", ROOT / "build/control/tests/template_speaker"))
NOW = datetime.datetime(2024, 7, 26, 13, 5, 9)


class TemplateSpeaker:
    def __init__(self):
        self.process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, template: str, variables: dict, **options) -> dict:
        order = {"template": template, "variables": variables, "now": list(NOW.timetuple()[:6]), **options}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

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
    variables = dict(variables)
    given = [variables.pop(name, None) for name in ("messages", "tools", "documents", "add_generation_prompt")]
    text, spans = chat_template_utils._render_with_assistant_indices(compiled, *given, **variables)
    return {"text": text, "generated": [[len(text[:end].encode()) for end in span] for span in spans]}
