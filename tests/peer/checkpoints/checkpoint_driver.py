"""Talks with tests/programs/checkpoint_driver.cpp: checkpoints as muster reads, writes and converts them."""

import json
import os
import pathlib
import subprocess

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(
    os.environ.get("MUSTER_TEST_CHECKPOINT_DRIVER", ROOT / "build/engine/tests/checkpoint_driver")
)


class Refused(Exception):
    pass


class Driver:
    def __init__(self, folder: pathlib.Path):
        self.out = folder / "driver-out"
        self.environment = {**os.environ, "HF_HUB_CACHE": str(folder / "hub"), "MUSTER_MODELS": str(folder / "models")}

    def __enter__(self):
        self.process = subprocess.Popen(
            [PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment
        )
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise Refused(answer["error"])
        return answer

    def open(self, model) -> dict:
        return {tensor["name"]: tensor for tensor in self.ask(open=str(model))["tensors"]}

    def open_safetensors(self, path) -> dict:
        return {tensor["name"]: tensor for tensor in self.ask(open_safetensors=str(path))["tensors"]}

    def read(self, name: str, dtype: torch.dtype, shape, **slice) -> torch.Tensor:
        self.bytes_read = self.ask(read=name, to=str(self.out), **{"as": str(dtype).removeprefix("torch.")}, **slice)["bytes_read"]
        return torch.frombuffer(bytearray(self.out.read_bytes()), dtype=dtype).reshape(shape)

    def packed(self, name: str, first: int, rows: int, to: pathlib.Path):
        """Form, codes and scales of rows; nothing where the tensor has no codes."""
        form = self.ask(read_packed=name, rows=[first, rows], to=str(to))
        if not form:
            return None
        codes = rows * form["columns"] // (1 if form["code"] == "int8" else 2)
        data = bytearray(to.read_bytes())
        return form, torch.frombuffer(data[:codes], dtype=torch.uint8), torch.frombuffer(data[codes:], dtype=torch.float32)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    kind = kinds[one.element_size()]
    return torch.equal(one.contiguous().view(kind), other.contiguous().view(kind))
