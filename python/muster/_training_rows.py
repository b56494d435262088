"""A dataset as a file that muster train reads."""

import enum
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Union

# The forms of a row: what it must have, and what it may have beside.
_FORMS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("messages",), ("tools", "documents", "template_variables")),
    (("prompt", "completion"), ()),
    (("instruction", "output"), ("input",)),
    (("text",), ()),
)


class RowUse(enum.Enum):
    """What rows are for. All but the first keep all their columns."""

    learnt = "learnt"
    judged = "prompts, whose answers are judged"
    acted_in = "what episodes of an environment begin with"


Dataset = Union[str, "os.PathLike[str]", Iterable[Mapping[str, Any]]]


def data_path(dataset: Dataset, folder: Path, name: str, use: RowUse = RowUse.learnt) -> str:
    """The path of a dataset: itself where it is one, else a file in folder, named after its content."""
    written = {RowUse.learnt: _row, RowUse.judged: _prompt, RowUse.acted_in: _whole}[use]
    if isinstance(dataset, (str, os.PathLike)):
        return os.fspath(dataset)
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    part = folder / f".{name}-{os.getpid()}.part"
    rows = 0
    try:
        with part.open("w", encoding="utf-8") as file:
            for number, row in enumerate(dataset):
                line = json.dumps(written(row, number), ensure_ascii=False) + "\n"
                digest.update(line.encode())
                file.write(line)
                rows += 1
        if rows == 0:
            raise ValueError(f"{name} has no rows\n  try: a path, or an iterable of dicts")
        path = folder / f"{name}-{digest.hexdigest()[:16]}.jsonl"
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return str(path)


def _prompt(row: Any, number: int) -> dict[str, Any]:
    if not isinstance(row, Mapping) or not any(row.get(key) for key in ("prompt", "question", "messages")):
        raise ValueError(f"row {number} of the dataset asks nothing: {row!r}\n  try: {{'prompt': …}}")
    return dict(row)


def _whole(row: Any, number: int) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise TypeError(f"row {number} of the dataset is {row!r}, and no dict\n  try: what reset(row, seed) is to get")
    return dict(row)


def _row(row: Any, number: int) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise TypeError(f"row {number} of the dataset is {row!r}, and no dict\n  try: {{'text': …}}")
    forms = [(needed, beside) for needed, beside in _FORMS if all(row.get(key) is not None for key in needed)]
    if len(forms) != 1:
        seen = ", ".join(map(str, row)) or "nothing"
        several = "has more than one form" if forms else "has no form that can be trained on"
        raise ValueError(
            f"row {number} of the dataset {several}: it holds {seen}\n"
            "  try: one of text; prompt and completion; messages; instruction and output"
        )
    needed, beside = forms[0]
    return {key: row[key] for key in (*needed, *beside) if row.get(key) is not None}
