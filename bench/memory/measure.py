"""Peak GPU memory of transformers and PyTorch, cell by cell, as JSON lines: what `muster plan` is checked against.

    python3 bench/memory/measure.py cells.jsonl            every cell
    python3 bench/memory/measure.py --held-out cells.jsonl  cells of odd sizes, kept out of the making of the model
    python3 bench/memory/measure.py --limits limits.jsonl  the smallest limit under which cells still run
    python3 bench/memory/measure.py --trace FOLDER         the allocations of one step of small models, one by one

A cell is one training step, generation or scoring of one model at one setting. Training runs three steps; the peak of
the last is the steady one. Needs one GPU, torch and transformers; downloads nothing.
"""

import argparse
import gc
import json
import pathlib
import sys
import time

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

from shapes import shapes

MIB = 1 << 20


def build(shape, dtype, attention="sdpa"):
    config = AutoConfig.for_model(**shape)
    config._attn_implementation = attention
    torch.set_default_dtype(dtype)
    try:
        with torch.device("cuda"):
            from transformers.initialization import no_init_weights

            with no_init_weights():
                model = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    except ImportError:
        with torch.device("cuda"):
            model = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    finally:
        torch.set_default_dtype(torch.float32)
    model.tie_weights()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.02)
    return model.to(dtype)


def optimizer_of(name, model):
    parameters = [p for p in model.parameters() if p.requires_grad]
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=1e-4)
    if name == "adamw_fused":
        return torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=1e-4)
    if name == "sgd_momentum":
        return torch.optim.SGD(parameters, lr=1e-4, momentum=0.9)
    raise ValueError(name)


def peak():
    value = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return value


def train_cell(cell):
    autocast = cell["dtype"] == "autocast"
    dtype = torch.float32 if cell["dtype"] in ("float32", "autocast") else getattr(torch, cell["dtype"])
    model = build(shapes[cell["model"]], dtype, cell.get("attention", "sdpa"))
    model.config.use_cache = cell.get("use_cache", False)
    model.train()
    if cell["checkpointing"]:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = optimizer_of(cell["optimizer"], model)
    ids = torch.randint(0, model.config.vocab_size, (cell["batch"], cell["sequence"]), device="cuda")
    out = {"weights": torch.cuda.memory_allocated(), "parameters": sum(p.numel() for p in model.parameters())}
    torch.cuda.reset_peak_memory_stats()
    accumulation = cell.get("accumulation", 1)
    for step in range(3):
        phases = {"forward": 0, "backward": 0}
        for _ in range(accumulation):
            with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                if cell.get("keep_output"):
                    output = model(input_ids=ids, labels=ids)
                    loss = output.loss
                else:
                    loss = model(input_ids=ids, labels=ids).loss
            phases["forward"] = max(phases["forward"], peak())
            phases["held"] = torch.cuda.memory_allocated()
            loss.backward()
            phases["backward"] = max(phases["backward"], peak())
        phases["after_backward"] = torch.cuda.memory_allocated()
        optimizer.step()
        phases["step"] = peak()
        optimizer.zero_grad(set_to_none=True)
        if step == 0:
            out["first"] = max(phases["forward"], phases["backward"], phases["step"])
    out["phases"] = phases
    out["peak"] = max(phases["forward"], phases["backward"], phases["step"])
    out["reserved"] = torch.cuda.max_memory_reserved()
    return out


def generate_cell(cell):
    model = build(shapes[cell["model"]], getattr(torch, cell["dtype"]), cell.get("attention", "sdpa")).eval()
    ids = torch.randint(0, model.config.vocab_size, (cell["batch"], cell["sequence"]), device="cuda")
    out = {"weights": torch.cuda.memory_allocated(), "parameters": sum(p.numel() for p in model.parameters())}
    torch.cuda.reset_peak_memory_stats()
    with torch.no_grad():
        if cell["new_tokens"] == 0:
            model(input_ids=ids, use_cache=False)
        else:
            mask = torch.ones_like(ids)
            model.generation_config.eos_token_id = None
            model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=cell["new_tokens"],
                           min_new_tokens=cell["new_tokens"], pad_token_id=0)
    out["peak"] = peak()
    out["reserved"] = torch.cuda.max_memory_reserved()
    return out


def run_cell(cell):
    # The allocator is handed over empty, so that what is reserved is this cell's own.
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    base = torch.cuda.memory_allocated()
    started = time.time()
    try:
        out = generate_cell(cell) if cell["work"] == "infer" else train_cell(cell)
    except torch.OutOfMemoryError as error:
        out = {"out_of_memory": str(error)[:160]}
    out["base"] = base
    out["seconds"] = round(time.time() - started, 2)
    return {**cell, **out}


def train(model, dtype, optimizer, checkpointing, batch, sequence, **more):
    return dict(work="train", model=model, dtype=dtype, optimizer=optimizer, checkpointing=checkpointing,
                batch=batch, sequence=sequence, **more)


def infer(model, dtype, batch, sequence, new_tokens, **more):
    return dict(work="infer", model=model, dtype=dtype, batch=batch, sequence=sequence, new_tokens=new_tokens, **more)


def cells():
    # Three that were known before.
    yield train("qwen2-0.5b", "bfloat16", "adamw", False, 1, 1024)
    yield train("qwen2-0.5b", "bfloat16", "adamw", False, 4, 1024)
    yield train("qwen2-0.5b", "bfloat16", "adamw", True, 4, 2048)
    grid = [(1, 256), (1, 1024), (1, 4096), (4, 512), (4, 2048), (8, 1024), (16, 256), (16, 1024), (32, 512), (64, 256)]
    for model in ("qwen2-0.5b", "qwen3-0.6b", "llama-3.2-1b", "mistral-small", "gpt2", "qwen2-1.5b", "smollm2-135m"):
        for dtype in ("bfloat16", "float32", "autocast"):
            for number, (batch, sequence) in enumerate(grid):
                if model == "gpt2" and sequence > 1024:
                    continue
                checkpointing = number % 3 == 1
                optimizer = ("adamw", "sgd", "adamw", "adamw_fused")[number % 4]
                yield train(model, dtype, optimizer, checkpointing, batch, sequence)
            yield train(model, dtype, "adamw", True, 8, 1024)
            yield train(model, dtype, "sgd", False, 2, 1024)
    yield train("mistral-7b", "bfloat16", "adamw", True, 1, 2048)
    yield train("mistral-7b", "bfloat16", "sgd", False, 4, 1024)
    yield train("mistral-7b", "float32", "sgd", True, 2, 1024)
    yield train("llama-3.1-8b", "bfloat16", "adamw", False, 2, 2048)
    yield train("llama-3.1-8b", "bfloat16", "adamw_fused", True, 4, 4096)
    yield train("qwen2-0.5b", "float16", "adamw", False, 4, 1024)
    yield train("qwen2-0.5b", "bfloat16", "sgd_momentum", False, 4, 1024)
    yield train("qwen2-0.5b", "bfloat16", "adamw", False, 4, 1024, accumulation=2)
    yield train("qwen2-0.5b", "bfloat16", "adamw", True, 4, 1024, accumulation=2)
    yield train("qwen2-0.5b", "bfloat16", "adamw", False, 4, 1024, use_cache=True)
    yield train("qwen2-0.5b", "bfloat16", "adamw", False, 4, 1024, keep_output=True)
    yield train("llama-3.2-1b", "bfloat16", "adamw", False, 4, 1024, use_cache=True, keep_output=True)
    yield train("qwen2-0.5b", "bfloat16", "adamw", False, 4, 1024, attention="eager")
    yield train("qwen2-0.5b", "float32", "adamw", False, 2, 1024, attention="eager")
    yield train("llama-3.2-1b", "bfloat16", "adamw", True, 2, 2048, attention="eager")
    yield train("gpt2", "bfloat16", "adamw", False, 4, 1024, attention="eager")
    yield from inference_cells()


def inference_cells():
    for model in ("qwen2-0.5b", "qwen2-1.5b", "qwen3-0.6b", "llama-3.2-1b", "mistral-7b", "gpt2", "smollm2-135m"):
        for batch, sequence, new in ((1, 256, 32), (64, 256, 16), (16, 900, 24), (32, 2048, 16), (64, 4000, 8)):
            if model == "gpt2" and sequence > 960:
                continue
            yield infer(model, "bfloat16", batch, sequence, new)
        yield infer(model, "bfloat16", 8, 512, 0)
        yield infer(model, "float32", 8, 512, 32)
        yield infer(model, "float32", 4, 900, 0)


def held_out_cells():
    models = ("qwen2-0.5b", "qwen2-1.5b", "qwen3-0.6b", "llama-3.2-1b", "tinyllama-1.1b", "mistral-small", "gpt2-medium")
    sizes = ((3, 777), (1, 3000), (7, 333), (2, 1900), (5, 1024), (11, 400), (13, 640), (24, 300), (48, 256))
    for number, model in enumerate(models):
        for place, dtype in enumerate(("bfloat16", "float32", "autocast")):
            for offset in (0, 3, 6):
                batch, sequence = sizes[(number + place + offset) % len(sizes)]
                if model == "gpt2-medium" and sequence > 1024:
                    sequence = 1000
                optimizer = ("adamw", "sgd", "adamw_fused")[(number + offset) % 3]
                yield train(model, dtype, optimizer, (number + place + offset) % 2 == 0, batch, sequence)
        yield infer(model, "bfloat16", 6, 700, 20)
        yield infer(model, "float32", 3, 600, 0)


def limit_cells():
    yield train("qwen2-0.5b", "bfloat16", "adamw", False, 4, 1024)
    yield train("qwen2-0.5b", "bfloat16", "adamw", True, 8, 1024)
    yield train("llama-3.2-1b", "bfloat16", "adamw", True, 8, 1024)
    yield train("llama-3.2-1b", "bfloat16", "adamw", False, 2, 2048)
    yield train("llama-3.2-1b", "float32", "adamw_fused", True, 4, 1024)
    yield train("qwen2-1.5b", "autocast", "adamw", True, 4, 2048)
    yield train("qwen3-0.6b", "bfloat16", "adamw", False, 8, 512)
    yield train("mistral-small", "bfloat16", "sgd", False, 2, 1024)
    yield train("mistral-small", "autocast", "adamw", False, 2, 1024)
    yield train("gpt2", "float32", "adamw", False, 16, 1024)
    yield train("smollm2-135m", "bfloat16", "adamw", True, 4, 1024)
    yield infer("qwen2-0.5b", "bfloat16", 32, 2048, 8)
    yield infer("llama-3.2-1b", "bfloat16", 64, 512, 8)


def smallest_limit(cell):
    """The smallest limit, in parts of the peak, under which the cell runs: found by halving, to half a percent."""
    unlimited = run_cell(cell)
    total = torch.cuda.mem_get_info()[1]
    low, high = 1.0, 1.32
    while high - low > 0.005:
        middle = (low + high) / 2
        torch.cuda.set_per_process_memory_fraction(min(1.0, unlimited["peak"] * middle / total))
        result = run_cell(cell)
        if "peak" in result:
            high = middle
        else:
            low = middle
    torch.cuda.set_per_process_memory_fraction(1.0)
    return {**cell, "peak": unlimited["peak"], "reserved": unlimited["reserved"], "smallest_limit": round(high, 4)}


def trace(folder):
    """Every allocation of the third step of three-layer models whose dimensions are told apart by their size."""
    folder.mkdir(parents=True, exist_ok=True)
    for model in ("trace-llama", "trace-qwen2", "trace-qwen3", "trace-gpt2"):
        with (folder / f"{model}.txt").open("w") as file:
            for dtype in ("bfloat16", "float32", "autocast"):
                for checkpointing in (False, True):
                    for attention in ("sdpa", "eager"):
                        if attention == "eager" and (model in ("trace-qwen2", "trace-qwen3") or checkpointing):
                            continue
                        trace_train(file, model, dtype, checkpointing, attention)
            for new in (0, 3):
                trace_infer(file, model, new)


def events(file, since):
    snapshot = torch.cuda.memory._snapshot()
    live = {}
    now = 0
    for entry in snapshot["device_traces"][0]:
        frames = [f for f in entry.get("frames", []) if "measure.py" not in f["filename"]]
        frames = [f"{pathlib.Path(f['filename']).name}:{f['line']}:{f['name']}" for f in frames
                  if "module.py" not in f["filename"] and "generic.py" not in f["filename"]][:3]
        if entry["action"] == "alloc":
            now += entry["size"]
            live[entry["addr"]] = entry["size"]
            print(f"+{entry['size']} {now} {entry['addr'] % 1000000007:x} {' < '.join(frames)}", file=file)
        elif entry["action"] == "free_completed":
            now -= entry["size"]
            print(f"-{entry['size']} {now} {entry['addr'] % 1000000007:x}", file=file)
        elif entry["action"] == "user_defined":
            print("mark", file=file)


def trace_train(file, name, dtype, checkpointing, attention):
    autocast = dtype == "autocast"
    kind = torch.float32 if dtype in ("float32", "autocast") else getattr(torch, dtype)
    model = build(shapes[name], kind, attention)
    model.config.use_cache = False
    model.train()
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = torch.randint(0, model.config.vocab_size, (2, 512), device="cuda")
    for step in range(3):
        if step == 2:
            print(f"\n=== {name} {dtype} checkpointing={checkpointing} {attention}: allocated {torch.cuda.memory_allocated()}", file=file)
            torch.cuda.memory._record_memory_history(max_entries=100000, stacks="python")
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            loss = model(input_ids=ids, labels=ids).loss
        if step == 2:
            events(file, 0)
            print("--- backward", file=file)
            torch.cuda.memory._record_memory_history(enabled=None)
            torch.cuda.memory._record_memory_history(max_entries=100000, stacks="python")
        loss.backward()
        if step == 2:
            events(file, 0)
            print("--- step", file=file)
            torch.cuda.memory._record_memory_history(enabled=None)
            torch.cuda.memory._record_memory_history(max_entries=100000, stacks="python")
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    events(file, 0)
    torch.cuda.memory._record_memory_history(enabled=None)


def trace_infer(file, name, new):
    model = build(shapes[name], torch.bfloat16).eval()
    ids = torch.randint(0, model.config.vocab_size, (2, 512), device="cuda")
    print(f"\n=== {name} infer new={new}: allocated {torch.cuda.memory_allocated()}", file=file)
    with torch.no_grad():
        for round in range(2):
            if round == 1:
                torch.cuda.memory._record_memory_history(max_entries=100000, stacks="python")
            if new == 0:
                model(input_ids=ids, use_cache=False)
            else:
                model.generation_config.eos_token_id = None
                model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=new, pad_token_id=0)
    events(file, 0)
    torch.cuda.memory._record_memory_history(enabled=None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", nargs="?", type=pathlib.Path)
    parser.add_argument("--held-out", type=pathlib.Path)
    parser.add_argument("--inference", type=pathlib.Path)
    parser.add_argument("--limits", type=pathlib.Path)
    parser.add_argument("--trace", type=pathlib.Path)
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}", flush=True)
    if arguments.trace:
        trace(arguments.trace)
    if arguments.output:
        write(arguments.output, cells(), run_cell)
    if arguments.held_out:
        write(arguments.held_out, held_out_cells(), run_cell)
    if arguments.inference:
        write(arguments.inference, inference_cells(), run_cell)
    if arguments.limits:
        write(arguments.limits, limit_cells(), smallest_limit)


def write(path, wanted, measured):
    free, total = torch.cuda.mem_get_info()
    facts = dict(gpu=torch.cuda.get_device_name(), total=total, used_at_start=total - free, torch=torch.__version__,
                 transformers=transformers.__version__)
    with path.open("w") as file:
        print(json.dumps(facts), file=file, flush=True)
        for cell in wanted:
            result = measured(cell)
            print(json.dumps(result), file=file, flush=True)
            print(result["model"], result["dtype"], result["batch"], result["sequence"], result.get("peak"),
                  result.get("smallest_limit", ""), file=sys.stderr)


if __name__ == "__main__":
    main()
