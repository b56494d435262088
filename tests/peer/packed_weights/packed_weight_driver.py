"""The program that fills packed weights."""

import json
import os
import pathlib
import subprocess

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAMS", ROOT / "build/engine/tests")) / "packed_weight_driver"


def name(type: torch.dtype) -> str:
    return str(type).removeprefix("torch.")


class PackedWeightDriver:
    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.process = subprocess.Popen([PROGRAM], env=os.environ | {"OMP_NUM_THREADS": "1"}, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def file(self, what: str, tensor: torch.Tensor) -> str:
        path = self.folder / what
        path.write_bytes(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return str(path)

    def numbers(self, shape, type: torch.dtype, **request) -> torch.Tensor:
        path = self.folder / "numbers"
        request |= {"outputs": shape[0], "inputs": shape[1], "type": name(type), "numbers": str(path)}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        assert json.loads(self.process.stdout.readline()) == {}
        return torch.frombuffer(bytearray(path.read_bytes()), dtype=type).view(*shape)

    def of_rows(self, rows: torch.Tensor, type: torch.dtype, **packing) -> torch.Tensor:
        """The numbers that a weight has when it is filled with these rows."""
        given = {"rows": self.file("rows", rows), "rows_type": name(rows.dtype)}
        return self.numbers(rows.shape, type, packing=packing, **given)

    def of_codes(self, shape, codes: torch.Tensor, scales: torch.Tensor, type: torch.dtype, **packing) -> torch.Tensor:
        given = {"codes": self.file("codes", codes), "scales": self.file("scales", scales)}
        return self.numbers(shape, type, packing=packing, **given)

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0
