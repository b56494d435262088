"""The program that makes device maps, and models as it reads them."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from torch import nn

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(os.environ.get("MUSTER_TEST_PROGRAMS", ROOT / "build/engine/tests"))


class MapRefused(Exception):
    """What the program said of a map it could not make."""


def describe(model: nn.Module) -> list[dict]:
    """The tree of modules and tensors, in the order of definition."""
    modules, index_of, first_name = [], {}, {}
    count = 0
    for path, module in model.named_modules():
        index_of[path] = len(modules)
        parent = None if path == "" else index_of[path.rpartition(".")[0]]
        tensors = []
        for kind, own in (("parameter", module._parameters), ("buffer", module._buffers)):
            for name, tensor in own.items():
                if tensor is None:
                    continue
                derived = name in module._non_persistent_buffers_set
                tensors.append(
                    {
                        "name": name,
                        "dimensions": list(tensor.shape),
                        "type": str(tensor.dtype).removeprefix("torch.").replace("bool", "boolean"),
                        "kind": "derived" if kind == "buffer" and derived else kind,
                        "same_as": first_name.get(id(tensor)),
                    }
                )
                first_name.setdefault(id(tensor), count)
                count += 1
        modules.append(
            {"name": path.rpartition(".")[2], "class": type(module).__name__, "parent": parent, "tensors": tensors}
        )
    return modules


class MapMaker:
    def __init__(self):
        self.process = subprocess.Popen(
            [str(PROGRAMS / "map_maker")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, order: dict) -> dict:
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the program is gone"
        return json.loads(line)

    def load(self, name: str, model: nn.Module) -> None:
        assert self.ask({"model": name, "modules": describe(model)}) == {"model": name}

    def plan(self, name: str, budgets: dict, **request: Any) -> dict:
        """{"budgets": {place: bytes}, "map": {path: place}}, as accelerate spells them."""
        answer = self.ask({"of": name, "budgets": {str(place): size for place, size in budgets.items()}, **request})
        if "error" in answer:
            raise MapRefused(answer["error"])
        answer["budgets"] = {as_place(place): sum(parts) for place, parts in answer["budgets"].items()}
        entries = [(path, as_place(place)) for path, place in answer["map"]]
        answer["map"] = dict(entries)
        assert len(answer["map"]) == len(entries), "a path has two entries"
        return answer

    def close(self) -> None:
        self.process.stdin.close()
        assert self.process.wait(120) == 0
        self.process.stdout.close()


def as_place(word: str):
    return int(word) if word.isdigit() else word


def total_bytes(model: nn.Module) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in [*model.parameters(), *model.buffers()])
