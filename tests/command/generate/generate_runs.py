"""muster generate as a user runs it, with a scripted worker in place of the real one, or with the real one."""

import json
import os
import pathlib
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from tiny_tokenizer import make_model_text  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAM", ROOT / "build/engine/apps/cli/muster"))

TINY = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 400,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}


class Generate:
    """Runs `muster generate ARGS` in a folder of its own, on the CPU."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("MUSTER_") and not name.startswith("CUDA_") and not name.startswith("HF_")
        }
        self.environment["MUSTER_LEASE_DIR"] = str(folder / "leases")
        self.environment["MUSTER_MODELS"] = str(folder / "models")
        self.environment["HF_HUB_CACHE"] = str(folder / "cache")

    def script(self, **script: object) -> None:
        """From now on a scripted worker answers."""
        worker = self.folder / "scripted-worker"
        worker.write_text(f"#!{sys.executable}\n" + (pathlib.Path(__file__).parent / "scripted_worker.py").read_text())
        worker.chmod(0o755)
        self.environment["MUSTER_WORKER"] = str(worker)
        self.environment["SCRIPT"] = json.dumps({"record": str(self.folder / "record.jsonl"), **script})

    def model(self, **changes: object) -> str:
        folder = self.folder / "tiny"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps({**TINY, **changes}))
        return "tiny"

    def text(self, **template: object) -> None:
        """The model gets a tokenizer and, unless template=None, a chat template."""
        make_model_text(self.folder / self.model(), **template)

    def prompts(self, name: str, *rows: object) -> str:
        text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
        (self.folder / name).write_text(text)
        return name

    def words(self, *arguments: str) -> list[str]:
        return [str(PROGRAM), "generate", *arguments]

    def start(self, *arguments: str, **options: object) -> subprocess.Popen:
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(self.words(*arguments), env=self.environment, cwd=self.folder, text=True, **options)

    def __call__(self, *arguments: str, input: str | None = None) -> subprocess.CompletedProcess:
        process = self.start(*arguments, stdin=subprocess.DEVNULL if input is None else subprocess.PIPE)
        out, err = process.communicate(input, timeout=120)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def rows(self, name: str) -> list[dict]:
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def recorded(self) -> tuple[dict, list[dict]]:
        """The assignment, and the rows of all requests."""
        assignment, *requests = self.rows("record.jsonl")
        return assignment, [json.loads(request["row"]) for request in requests]
