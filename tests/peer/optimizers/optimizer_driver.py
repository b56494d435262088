"""The program that steps parameters, and the same steps by the rule alone."""

import dataclasses
import json
import math
import os
import pathlib
import subprocess

import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAMS", ROOT / "build/engine/tests")) / "optimizer_driver"
BLOCK = 256


@dataclasses.dataclass
class Rule:
    """What one step is taken with."""

    rate: float = 1e-3
    decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


@dataclasses.dataclass
class Outcome:
    """A parameter after some steps, and its two moments."""

    parameter: torch.Tensor
    codes: list[torch.Tensor]
    scales: list[torch.Tensor]

    def moment(self, number: int, map: torch.Tensor) -> torch.Tensor:
        count = self.parameter.numel()
        return map[self.codes[number].long()] * self.scales[number].repeat_interleave(BLOCK)[:count]


class OptimizerDriver:
    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.process = subprocess.Popen([PROGRAM], env=os.environ | {"OMP_NUM_THREADS": "1"}, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, **request) -> None:
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        assert json.loads(self.process.stdout.readline()) == {}

    def file(self, what: str, tensor: torch.Tensor | None = None) -> str:
        path = self.folder / what
        if tensor is not None:
            path.write_bytes(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return str(path)

    def numbers(self, what: str, type: torch.dtype) -> torch.Tensor:
        return torch.frombuffer(bytearray((self.folder / what).read_bytes()), dtype=type)

    def maps(self) -> tuple[torch.Tensor, torch.Tensor]:
        self.ask(maps=self.file("maps"))
        return self.numbers("maps", torch.float32).view(2, 256).unbind()

    def stepped(self, parameter: torch.Tensor, gradients: list[torch.Tensor], rules: list[Rule]) -> Outcome:
        self.ask(
            parameter=self.file("parameter", parameter),
            gradients=self.file("gradients", torch.stack([gradient.flatten() for gradient in gradients])),
            type=str(parameter.dtype).removeprefix("torch."),
            steps=[dataclasses.asdict(rule) for rule in rules],
            codes=self.file("codes"),
            scales=self.file("scales"),
        )
        return Outcome(
            self.numbers("parameter", parameter.dtype),
            list(self.numbers("codes", torch.uint8).chunk(2)),
            list(self.numbers("scales", torch.float32).chunk(2)),
        )

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c of float32, rounded once: exact in long doubles but for what is far below a float's last bit."""
    exact = a.astype(np.longdouble) * b.astype(np.longdouble) + c.astype(np.longdouble)
    return exact.astype(np.float32)


def nearest(map: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The code of each number; a tie goes to the lower value."""
    wide = map.astype(np.float64)
    middles = (wide[1:] + wide[:-1]) / 2
    return np.searchsorted(middles, numbers.astype(np.float64), side="left").astype(np.uint8)


def by_rule(
    parameter: torch.Tensor, gradients: list[torch.Tensor], rules: list[Rule], maps: list[torch.Tensor]
) -> Outcome:
    """The steps in numpy, number by number by the formula of torch.optim.AdamW, with nearest codes of these maps."""
    f = np.float32
    values = parameter.float().numpy().copy()
    tables = [map.numpy() for map in maps]
    blocks = -(-values.size // BLOCK)
    codes = [np.zeros(values.size, np.uint8) for _ in range(2)]
    scales = [np.zeros(blocks, f) for _ in range(2)]

    def decoded(number: int) -> np.ndarray:
        return tables[number][codes[number]] * np.repeat(scales[number], BLOCK)[: values.size]

    def keep(number: int, moment: np.ndarray) -> None:
        padded = np.pad(moment, (0, blocks * BLOCK - moment.size)).reshape(blocks, BLOCK)
        scales[number] = np.abs(padded).max(1)
        shares = padded / np.where(scales[number] > 0, scales[number], f(1))[:, None]
        codes[number] = nearest(tables[number], shares.ravel()[: moment.size])

    for step, (gradient, rule) in enumerate(zip(gradients, rules, strict=True), 1):
        g = gradient.float().flatten().numpy()
        before = decoded(0)
        first = fma(g - before, np.full_like(g, 1 - rule.beta1), before)
        second = fma(g * f(1 - rule.beta2), g, decoded(1) * f(rule.beta2))
        divisor = np.sqrt(second) / f(math.sqrt(1 - rule.beta2**step)) + f(rule.epsilon)
        kept = values * f(1 - rule.rate * rule.decay)
        values = fma(first / divisor, np.full_like(g, -f(rule.rate / (1 - rule.beta1**step))), kept)
        values = torch.from_numpy(values).to(parameter.dtype).float().numpy()
        keep(0, first)
        keep(1, second)
    return Outcome(
        torch.from_numpy(values).to(parameter.dtype),
        [torch.from_numpy(code) for code in codes],
        [torch.from_numpy(scale) for scale in scales],
    )
