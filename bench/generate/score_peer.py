"""Reading and scoring beside transformers: the same shape, threads, batch and length, in turn, in one run.

    python bench/generate/score_peer.py --program build/engine/bench/generate/score_bench [--device cuda:0] [--dtype bfloat16]

Prints one JSON line for each batch: tokens per second of both and their ratio.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
import time

import torch
import transformers

SMOLLM2 = dict(model_type="llama", hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
               num_key_value_heads=3, vocab_size=49152, tie_word_embeddings=True, rope_theta=100000.0,
               rms_norm_eps=1e-5, max_position_embeddings=8192)


def best_rate(tokens, repeats, work):
    work()
    best = 0.0
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = max(best, tokens / (time.perf_counter() - start))
    return best


def measure_peer(arguments, batch, length):
    settings = {key: value for key, value in SMOLLM2.items() if key != "model_type"}
    config = transformers.LlamaConfig(**settings)
    dtype = getattr(torch, arguments.dtype)
    model = transformers.LlamaForCausalLM(config).to(dtype).to(arguments.device).eval()
    ids = torch.randint(0, config.vocab_size, (batch, length), device=arguments.device)

    def prefill():
        with torch.inference_mode():
            model(ids, logits_to_keep=1).logits.cpu()

    def scoring():
        with torch.inference_mode():
            logits = model(ids).logits[:, :-1].float()
            torch.log_softmax(logits, -1).gather(2, ids[:, 1:, None]).cpu()

    return {"prefill": best_rate(batch * length, arguments.repeats, prefill),
            "scoring": best_rate(batch * length, arguments.repeats, scoring)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.json"
        config.write_text(json.dumps(SMOLLM2))
        for batch in arguments.batches:
            command = [arguments.program, str(config), arguments.dtype, arguments.device, str(arguments.threads),
                       str(batch), str(arguments.length), str(arguments.repeats)]
            ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            theirs = measure_peer(arguments, batch, arguments.length)
            for kind in ("prefill", "scoring"):
                print(json.dumps({"question": kind, "model": "SmolLM2-135M shape", "dtype": arguments.dtype,
                                  "device": arguments.device, "threads": arguments.threads, "batch": batch,
                                  "length": arguments.length, "muster": round(ours[kind], 1),
                                  "transformers": round(theirs[kind], 1), "torch": torch.__version__,
                                  "ratio": round(ours[kind] / theirs[kind], 3)}), flush=True)


if __name__ == "__main__":
    main()
