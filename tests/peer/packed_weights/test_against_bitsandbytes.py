"""Numbers of packed weights against bitsandbytes' on CPU.

A scale and the codes of its run are all in the numbers: the largest of them is the scale, and products of different
codes with it differ. So equal numbers mean equal codes and scales.
"""

import pytest
import torch

bitsandbytes = pytest.importorskip("bitsandbytes").functional

TYPES = [torch.float32, torch.bfloat16, torch.float16]
SHAPES = [(1, 64), (16, 64), (37, 576), (50, 75), (3, 1), (7, 333), (20, 4096)]
RUNS = [32, 64, 128, 512, 4096]


def rows_of(shape, kind: str, type: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(shape[0] * 1000 + shape[1])
    rows = torch.randn(shape, generator=generator)
    if kind == "decades":
        rows *= 10 ** (6 * torch.rand(shape, generator=generator) - 4)
    if kind == "grid":  # many numbers lie in the middle of two codes
        rows = torch.randint(-96, 97, shape, generator=generator) / 96
    if kind == "zeros":
        rows[: (shape[0] + 1) // 2] = 0
    return rows.to(type)


def dequantised(codes, scales, shape, run: int, code: str, type: torch.dtype) -> torch.Tensor:
    values = bitsandbytes.get_4bit_type(code, "cpu")
    flat = torch.stack([codes.flatten() >> 4, codes.flatten() & 15], 1).flatten()[: shape[0] * shape[1]].long()
    return (values[flat] * scales.repeat_interleave(run)[: flat.numel()]).to(type).view(*shape)


def same(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    return torch.equal(found, wanted)


@pytest.mark.parametrize("code", ["nf4", "fp4"])
@pytest.mark.parametrize("kind", ["normal", "decades", "grid", "zeros"])
@pytest.mark.parametrize("run", RUNS)
def test_four_bits_are_those_of_bitsandbytes(driver, code, kind, run):
    for shape in SHAPES:
        for type in TYPES:
            rows = rows_of(shape, kind, type)
            codes, state = bitsandbytes.quantize_4bit(rows, blocksize=run, quant_type=code)
            for computed in (torch.float32, torch.bfloat16):
                wanted = dequantised(codes, state.absmax, shape, run, code, computed)
                assert same(driver.of_rows(rows, computed, code=code, run=run), wanted), (shape, type)
                known = driver.of_codes(shape, codes, state.absmax, computed, code=code, run=run)
                assert same(known, wanted), (shape, type)


@pytest.mark.parametrize("code", ["nf4", "fp4"])
def test_the_library_itself_reads_the_numbers_so(driver, code):
    """Where its kernels for CPU take the shape."""
    for type in TYPES:
        rows = rows_of((128, 512), "normal", type)
        for double in (False, True):
            codes, state = bitsandbytes.quantize_4bit(rows, quant_type=code, compress_statistics=double)
            scales = state.absmax
            if double:
                scales = bitsandbytes.dequantize_blockwise(state.absmax, state.state2) + state.offset
            wanted = bitsandbytes.dequantize_4bit(codes, state)
            found = driver.of_codes(rows.shape, codes, scales, type, code=code, double_quantized=double)
            assert wanted.dtype == type and same(found, wanted)


@pytest.mark.parametrize("kind", ["normal", "decades", "grid", "zeros"])
def test_eight_bits_are_those_of_bitsandbytes(driver, kind):
    for shape in SHAPES:
        for type in TYPES:
            rows = rows_of(shape, kind, type)
            codes, largest, _ = bitsandbytes.int8_vectorwise_quant(rows.to(torch.float16))
            for computed in TYPES:
                wanted = (codes.float() * largest.unsqueeze(1).mul(1.0 / 127.0)).to(computed)
                assert same(driver.of_rows(rows, computed, code="int8"), wanted), (shape, type)
                assert same(driver.of_codes(shape, codes, largest, computed, code="int8"), wanted), (shape, type)


def nearest_scales(scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rounded as the library's own formulas have it, and how far from it the neighbouring code is at most.

    Its kernel for CPU is not the judge: it looks codes up in 65,536 bins, and misses the nearest now and then."""
    map = bitsandbytes.create_dynamic_map(signed=True)
    bounds = (map[:-1] + map[1:]) / 2
    offset = scales.double().mean().float()
    rounded, steps = [], []
    for block in (scales - offset).split(256):
        largest = block.abs().max()
        divisor = largest.clamp(min=1e-38)
        short = block.numel() < 256
        share = block / divisor if short else block * (1 / divisor)
        places = torch.bucketize(share.clamp(-1, 1), bounds)
        rounded.append(map[places] * (divisor if short else largest) + offset)
        around = torch.stack([map[(places + 1).clamp(max=255)], map[(places - 1).clamp(min=0)]])
        steps.append((around - map[places]).abs().amax(0) * largest)
    return torch.cat(rounded), torch.cat(steps)


@pytest.mark.parametrize("kind", ["normal", "zeros"])
@pytest.mark.parametrize("shape", [(16, 64), (37, 576), (300, 75), (256, 1024)])
def test_doubly_quantised_scales_are_the_nearest_of_the_librarys_map(driver, shape, kind):
    rows = rows_of(shape, kind, torch.float32)
    codes, state = bitsandbytes.quantize_4bit(rows, quant_type="nf4")
    scales, steps = nearest_scales(state.absmax)
    found = driver.of_rows(rows, torch.float32, code="nf4", double_quantized=True)
    assert same(found, dequantised(codes, scales, shape, 64, "nf4", torch.float32))
    _, nested = bitsandbytes.quantize_4bit(rows, quant_type="nf4", compress_statistics=True)
    theirs = bitsandbytes.dequantize_blockwise(nested.absmax, nested.state2) + nested.offset
    assert ((theirs - scales).abs() <= steps * 1.001 + 1e-6 * scales.abs().max()).all()
