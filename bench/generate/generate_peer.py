"""Generation beside transformers: the same shape, threads, prompts and answers, in turn, in one run.

    python bench/generate/generate_peer.py --program build/engine/bench/generate/generate_bench [--device cuda:0]
        [--dtype bfloat16] [--shapes smollm2 llama-110m] [--batches 1 8] [--prompt 128] [--new 128]
    ... --forms float32 bfloat16 int8 nf4 --rounds 3 --table
                                                    how weights are held; transformers' by bitsandbytes, or in that type
    ... --ragged 2000 --sample 512 --batches 256    prompts and answers of 16 to 512 tokens, transformers on a sample

Prints one JSON line for each shape and batch: answers' tokens per second of both, over everything, and their ratio. Weights are
random, the choice is greedy, and nothing ends before its length.
"""

import argparse
import json
import pathlib
import random
import subprocess
import tempfile
import time

import torch
import transformers

SHAPES = {
    "smollm2": dict(model_type="llama", hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
                    num_attention_heads=9, num_key_value_heads=3, vocab_size=49152, tie_word_embeddings=True,
                    rope_theta=100000.0, rms_norm_eps=1e-5, max_position_embeddings=8192),
    "llama-110m": dict(model_type="llama", hidden_size=768, intermediate_size=2048, num_hidden_layers=12,
                       num_attention_heads=12, num_key_value_heads=12, vocab_size=32000, tie_word_embeddings=True,
                       rms_norm_eps=1e-5, max_position_embeddings=4096),
    "qwen2.5-0.5b": dict(model_type="qwen2", hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                         num_attention_heads=14, num_key_value_heads=2, vocab_size=151936, tie_word_embeddings=True,
                         rope_theta=1000000.0, rms_norm_eps=1e-6, max_position_embeddings=32768),
    "qwen2.5-7b": dict(model_type="qwen2", hidden_size=3584, intermediate_size=18944, num_hidden_layers=28,
                       num_attention_heads=28, num_key_value_heads=4, vocab_size=152064, tie_word_embeddings=False,
                       rope_theta=1000000.0, rms_norm_eps=1e-6, max_position_embeddings=32768),
}

# Tokens a second over those of float32, on two cores.
BARS = {("smollm2", 1, "bfloat16"): 1.5, ("smollm2", 1, "nf4"): 2.0}


def measure_ours(arguments, shape, lengths, batch, form):
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.json"
        config.write_text(json.dumps(SHAPES[shape]))
        dtype = arguments.dtype if form == arguments.dtype else f"{arguments.dtype}+{form}"
        command = [arguments.program, str(config), dtype, arguments.device, str(arguments.threads), str(batch),
                   str(arguments.repeats)] + (["deterministic"] if arguments.deterministic else [])
        done = subprocess.run(command, input="".join(f"{prompt} {new}\n" for prompt, new in lengths), text=True,
                              check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def quantized(model, form):
    """Its linear layers but the head as bitsandbytes has them, computed with in the model's type."""
    import bitsandbytes

    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is not torch.nn.Linear or name == "lm_head":
                continue
            sizes = dict(input_features=layer.in_features, output_features=layer.out_features,
                         bias=layer.bias is not None)
            if form == "int8":
                packed = bitsandbytes.nn.Linear8bitLt(**sizes, has_fp16_weights=False)
            else:
                packed = bitsandbytes.nn.Linear4bit(**sizes, quant_type=form, compute_dtype=layer.weight.dtype)
            packed.load_state_dict(layer.state_dict())
            setattr(parent, name, packed.to(layer.weight.device))
    return model


def load_peer(arguments, shape, form):
    torch.set_num_threads(arguments.threads)
    settings = {key: value for key, value in SHAPES[shape].items() if key != "model_type"}
    config = transformers.AutoConfig.for_model(SHAPES[shape]["model_type"], **settings)
    plain = form in ("float32", "float16", "bfloat16")
    with torch.device(arguments.device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, form if plain else arguments.dtype))
    model = (model if plain else quantized(model, form)).eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def generate(model, lengths):
    """One static batch: prompts padded on the left, as long as the longest answer. Tokens that count: the answers'."""
    longest = max(prompt for prompt, _ in lengths)
    ids = torch.randint(0, model.config.vocab_size, (len(lengths), longest))
    mask = torch.tensor([[0] * (longest - prompt) + [1] * prompt for prompt, _ in lengths])
    new = max(new for _, new in lengths)
    with torch.inference_mode():
        model.generate(ids.to(model.device), attention_mask=mask.to(model.device), do_sample=False, max_new_tokens=new,
                       min_new_tokens=new)
    if model.device.type == "cuda":
        torch.cuda.synchronize()


def measure_peer(arguments, model, lengths, batch):
    """The best static batching: sorted by the answer's length, so that a batch wastes little."""
    ordered = sorted(lengths, key=lambda length: (length[1], length[0]))
    batches = [ordered[i:i + batch] for i in range(0, len(ordered), batch)]
    generate(model, [(prompt, 4) for prompt, _ in batches[-1]])
    best = None
    for _ in range(arguments.peer_repeats):
        start = time.perf_counter()
        for some in batches:
            generate(model, some)
        seconds = time.perf_counter() - start
        best = seconds if best is None else min(best, seconds)
    return sum(new for _, new in lengths) / best


def lengths_of(arguments, batch):
    if not arguments.ragged:
        return [(arguments.prompt, arguments.new)] * batch
    chance = random.Random(1)
    return [(chance.randint(16, 512), chance.randint(16, 512)) for _ in range(arguments.ragged)]


def transformers_rate(arguments, shape, form, lengths, batch):
    model = load_peer(arguments, shape, form)
    sample = lengths[:arguments.sample]
    best = max(measure_peer(arguments, model, sample, size) for size in (arguments.peer_batches or [batch]))
    del model
    if arguments.device.startswith("cuda"):
        torch.cuda.empty_cache()
    return best


def measure(arguments, shape, batch):
    """A line for each form, the best of all rounds; in each the forms take turns."""
    lengths = lengths_of(arguments, batch)
    ours, theirs = {}, {}
    forms = arguments.forms or [arguments.dtype]
    for _ in range(arguments.rounds):
        for form in forms:
            measured = measure_ours(arguments, shape, lengths, batch, form)
            ours[form] = max(ours.get(form, measured), measured, key=lambda one: one["rate"])
            if not arguments.alone:
                theirs[form] = max(theirs.get(form, 0), transformers_rate(arguments, shape, form, lengths, batch))
    for form in forms:
        rate = ours[form]["rate"]
        line = {"bench": "generate", "shape": shape, "device": arguments.device, "dtype": arguments.dtype, "form": form,
                "threads": arguments.threads, "batch": batch, "prompts": len(lengths),
                "deterministic": arguments.deterministic, "muster": round(rate, 1),
                "muster_writing": round(ours[form]["writing_rate"], 1), "torch": torch.__version__}
        if len(forms) > 1:
            line["of_first_form"] = round(rate / ours[forms[0]]["rate"], 2)
        if form in theirs:
            line |= {"transformers": round(theirs[form], 1), "ratio": round(rate / theirs[form], 2)}
        print(json.dumps(line), flush=True)
        yield line


def table(lines):
    """What was measured, as Markdown; bars are of tokens a second over those of the first form."""
    rows = ["| shape | batch | weights | muster | over the first | bar | transformers | muster over it |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for line in lines:
        bar = BARS.get((line["shape"], line["batch"], line["form"])) if line["device"] == "cpu" else None
        cells = [line["shape"], line["batch"], line["form"], line["muster"], line.get("of_first_form", ""), bar or "",
                 line.get("transformers", ""), line.get("ratio", "")]
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--forms", nargs="+", help="DTYPE, bfloat16, int8, nf4; nothing: DTYPE alone")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--shapes", nargs="+", default=["smollm2", "llama-110m"])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--ragged", type=int, help="this many prompts and answers of 16 to 512 tokens instead")
    parser.add_argument("--sample", type=int, default=512, help="of the ragged ones, what transformers gets")
    parser.add_argument("--peer-batches", type=int, nargs="+", help="ragged: transformers' batches; its best counts")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer-repeats", type=int, default=2)
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--rounds", type=int, default=1, help="in each all forms take turns; the best of each counts")
    parser.add_argument("--table", action="store_true", help="a Markdown table at the end")
    parser.add_argument("--alone", action="store_true", help="without transformers")
    arguments = parser.parse_args()
    lines = [line for shape in arguments.shapes for batch in arguments.batches for line in measure(arguments, shape, batch)]
    if arguments.table:
        print(table(lines))


if __name__ == "__main__":
    main()
