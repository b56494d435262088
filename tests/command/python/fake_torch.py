"""A module object in torch's place that records what is asked of it."""

import sys
from types import ModuleType, SimpleNamespace


def install(monkeypatch, *, initialized: bool, current_device: int = 0) -> SimpleNamespace:
    record = SimpleNamespace(set_device=[], emptied=0, initialized=initialized, current_device=current_device)
    torch = ModuleType("torch")

    def set_device(index):
        record.set_device.append(index)
        record.current_device = index

    def empty_cache():
        record.emptied += 1

    torch.device = lambda name: ("torch.device", name)
    torch.cuda = SimpleNamespace(
        is_initialized=lambda: record.initialized,
        current_device=lambda: record.current_device,
        set_device=set_device,
        empty_cache=empty_cache,
        memory_allocated=lambda index: 1000 + index,
        memory_reserved=lambda index: 2000 + index,
        max_memory_allocated=lambda index: 3000 + index,
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    return record
