"""Our grammar of CUDA_VISIBLE_DEVICES against that of PyTorch, which was written to follow the driver's."""

import json
import random
import re

import pytest
from machine import python_output, uuid_of

from muster import _native

COUNT = 8
UUIDS = [uuid_of(index) for index in range(COUNT)]

# What torch makes of each mask: the physical GPUs that are left of it on this machine. torch looks for duplicates in
# the whole list; the driver (tried on an H200) stops at the first number that is no GPU and never sees what comes
# behind. So torch is not shown it either.
TORCH = """
import json, os, sys
import torch
masks, uuids = json.load(sys.stdin)
def parse(mask):
    os.environ["CUDA_VISIBLE_DEVICES"] = mask
    return torch.cuda._parse_visible_devices()
def indices(mask):
    if mask.startswith("GPU-"):
        return torch.cuda._transform_uuid_to_ordinals(parse(mask), uuids)
    entries = mask.split(",")
    for place, entry in enumerate(entries):
        if any(not isinstance(index, int) or index >= len(uuids) for index in parse(entry)):
            return parse(",".join(entries[:place]))
    return parse(mask)
json.dump([indices(mask) for mask in masks], sys.stdout)
"""


def numeric_entry(chance: random.Random) -> str:
    index = str(chance.randrange(COUNT))
    kind = chance.random()
    if kind < 0.75:
        return index
    if kind < 0.85:
        return chance.choice([" ", "  ", ""]) + index + chance.choice([" ", ""])
    if kind < 0.9:
        return "+" + index
    if kind < 0.95:
        return index + chance.choice(["gpu2", "ampere", " 3", ".5"])
    return chance.choice([str(COUNT), "99", "-1", "-2", "x", "", "GPU-0a", "007"])


def uuid_entry(chance: random.Random) -> str:
    uuid = chance.choice(UUIDS)
    kind = chance.random()
    if kind < 0.5:
        return uuid
    if kind < 0.9:
        return uuid[: chance.randrange(5, len(uuid))]
    return chance.choice(["GPU-", "GPU-ffff", "0", " " + uuid, uuid.lower(), "MIG-1"])


def generated_masks() -> list[str]:
    chance = random.Random(20260131)
    masks = [
        "",
        " ",
        ",",
        "0,",
        ",0",
        "-1",
        "0,1,2,3,4,5,6,7",
        "7,6,5,4,3,2,1,0",
        "0,0",
        "0,1,0",
        "1gpu2,2ampere",
        "0,-1,1",
        "3,8,1",
    ]
    for entry in (numeric_entry, uuid_entry):
        for _ in range(600):
            length = chance.choice([1, 1, 2, 2, 3, 4, 6])
            masks.append(",".join(entry(chance) for _ in range(length)))
    return list(dict.fromkeys(masks))


@pytest.fixture(scope="module")
def answers():
    masks = generated_masks()
    return list(zip(masks, json.loads(python_output(TORCH, json.dumps([masks, UUIDS])))))


@pytest.fixture
def view(machine):
    machine.has_a100s(COUNT)
    return _native.Host().look()


def test_there_are_hundreds_of_masks_of_every_kind(answers):
    whole = [mask for mask, indices in answers if indices and len(indices) == len(mask.split(","))]
    assert len(answers) > 600
    assert sum(mask.startswith("GPU-") for mask in whole) > 100
    assert sum(not mask.startswith("GPU-") for mask in whole) > 100
    assert len(answers) - len(whole) > 100


def test_cuda_reads_every_mask_as_torch_does(answers, view):
    differences = []
    for mask, indices in answers:
        ours = [device.index for device in _native.read_as_cuda(mask, view).devices]
        if ours != indices:
            differences.append((mask, ours, indices))
    assert differences == []


def has_words_after_numbers(mask: str) -> bool:
    return any(re.match(r"\s*[+-]?\d+(?!\d)\s*\S", part) for part in mask.split(","))


def test_a_mask_that_torch_takes_as_a_whole_is_accepted_with_the_same_gpus(answers, view):
    for mask, indices in answers:
        if indices and len(indices) == len(mask.split(",")):
            assert _native.read_as_cuda(mask, view).cut is None, mask
            if has_words_after_numbers(mask):  # torch drops the words in silence
                with pytest.raises(ValueError, match="is not one GPU"):
                    _native.read_mask(mask, view)
                continue
            assert [device.index for device in _native.read_mask(mask, view)] == indices, mask


def test_a_mask_that_torch_cuts_is_refused(answers, view):
    for mask, indices in answers:
        if len(indices) == len(mask.split(",")) or mask.strip() in ("", "-1"):
            continue
        assert _native.read_as_cuda(mask, view).cut is not None, mask
        with pytest.raises(ValueError):
            _native.read_mask(mask, view)


def test_no_mask_shows_every_gpu(view):
    assert [device.index for device in _native.read_as_cuda(None, view).devices] == list(range(COUNT))
