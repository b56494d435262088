"""Tiny random checkpoints of every family, made with transformers, and a driver that computes with them."""

import dataclasses
import pathlib

import json_lines
import numpy
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAMS = ROOT / "build" / "engine" / "tests"

SMALL = dict(vocab_size=331, hidden_size=48, intermediate_size=88, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=512)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    family: str
    settings: dict
    lengths: tuple = (1, 7, 33, 20)


def rope(**parameters):
    return {"rope_parameters": {"rope_theta": 10000.0, **parameters}}


def cases():
    small = SMALL
    for family in ("llama", "mistral", "qwen2", "qwen3"):
        yield Case(f"{family}", family, small)
        yield Case(f"{family}-tied", family, small | {"tie_word_embeddings": True})
        yield Case(f"{family}-untied", family, small | {"tie_word_embeddings": False})
        yield Case(f"{family}-long", family, small, (300, 5))
    yield Case("arcee", "arcee", small)
    yield Case("arcee-tied-biases", "arcee", small | {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True})
    yield Case("llama-biases", "llama", small | {"attention_bias": True, "mlp_bias": True})
    yield Case("qwen3-biases", "qwen3", small | {"attention_bias": True})
    for family in ("llama", "mistral", "qwen3"):
        yield Case(f"{family}-head-dim", family, small | {"head_dim": 24})
    yield Case("llama-one-kv-head", "llama", small | {"num_key_value_heads": 1})
    yield Case("llama-as-many-kv-heads", "llama", small | {"num_key_value_heads": 4})
    yield Case("llama-gelu", "llama", small | {"hidden_act": "gelu"})
    yield Case("llama-odd-sizes", "llama", small | {"hidden_size": 40, "intermediate_size": 61, "vocab_size": 97})
    # Past the switch of every rotary scaling.
    yield Case("llama-llama3", "llama", small | {"rope_parameters": LLAMA3}, (300, 40))
    yield Case("llama-linear", "llama", small | rope(rope_type="linear", factor=4.0), (300, 40))
    yield Case("llama-dynamic", "llama",
               small | rope(rope_type="dynamic", factor=2.0) | {"max_position_embeddings": 64}, (150,))
    yield Case("llama-dynamic-short", "llama", small | rope(rope_type="dynamic", factor=2.0), (40,))
    yield Case("qwen2-yarn", "qwen2",
               small | rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=64), (300, 40))
    yield Case("llama-yarn-settings", "llama",
               small | rope(rope_type="yarn", factor=8.0, original_max_position_embeddings=64, beta_fast=20.0,
                            beta_slow=2.0, mscale=0.7, mscale_all_dim=0.9, truncate=False), (300,))
    factors = {"short_factor": [1.0 + 0.1 * i for i in range(6)], "long_factor": [1.0 + 0.5 * i for i in range(6)]}
    longrope = rope(rope_type="longrope", original_max_position_embeddings=64, **factors)
    yield Case("llama-longrope-long", "llama", small | longrope, (200,))
    yield Case("llama-longrope-short", "llama", small | longrope, (60, 20))
    # Windows shorter than the prompt.
    yield Case("mistral-window", "mistral", small | {"sliding_window": 16}, (100, 9, 17))
    window = {"use_sliding_window": True, "sliding_window": 12, "max_window_layers": 1}
    yield Case("qwen2-window", "qwen2", small | window, (100, 9, 13))
    yield Case("qwen3-window", "qwen3", small | window, (100, 9, 13))
    gpt2 = dict(vocab_size=331, n_embd=48, n_layer=2, n_head=4, n_positions=256, bos_token_id=0, eos_token_id=0)
    yield Case("gpt2", "gpt2", gpt2)
    yield Case("gpt2-long", "gpt2", gpt2, (200, 5))
    yield Case("gpt2-scaled-by-layer", "gpt2", gpt2 | {"scale_attn_by_inverse_layer_idx": True})
    yield Case("gpt2-not-scaled", "gpt2", gpt2 | {"scale_attn_weights": False})
    yield Case("gpt2-untied", "gpt2", gpt2 | {"tie_word_embeddings": False})
    yield Case("gpt2-inner", "gpt2", gpt2 | {"n_inner": 100, "activation_function": "relu"})


def make_checkpoint(case, folder):
    """Random weights of a size that makes logits spread; saved as a folder."""
    torch.manual_seed(len(case.name) * 1000 + sum(case.name.encode()))
    config = transformers.AutoConfig.for_model(case.family, **case.settings)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or ".ln_" in name:
                parameter.copy_(1 + 0.2 * torch.randn_like(parameter))
            elif name.endswith("bias"):
                parameter.copy_(0.2 * torch.randn_like(parameter))
            else:
                parameter.copy_(torch.randn_like(parameter) * 1.2 / parameter.shape[-1] ** 0.5)
    model.save_pretrained(folder)
    return load(folder, torch.float32)


def load(folder, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager")
    return model.eval()


def sequences_of(case):
    vocabulary = case.settings["vocab_size"]
    generator = torch.Generator().manual_seed(7)
    return [torch.randint(0, vocabulary, (length,), generator=generator).tolist() for length in case.lengths]


def oracle_logits(model, sequences):
    """Of each sequence alone: [rows, vocabulary] in float32, one after another."""
    with torch.no_grad():
        return torch.cat([model(torch.tensor([ids])).logits[0].float() for ids in sequences]).numpy()


class Driver(json_lines.ModelProgram):
    """logits_driver with one model."""

    def __init__(self, model, dtype, folder, device="cpu", threads=2, deterministic=False, offloaded=None):
        words = ["deterministic"] if deterministic else []
        words += [offloaded] if offloaded else []
        super().__init__(PROGRAMS / "logits_driver", model, dtype, device, threads, *words)
        self.output = str(folder / f"logits-{dtype}-{threads}.bin")

    def ask(self, sequences, **settings):
        self.answer = super().ask(sequences=sequences, output=self.output, **settings)
        return numpy.fromfile(self.output, dtype=numpy.float32).reshape(self.answer["rows"], self.answer["vocabulary"])


def oracle_gradients(oracle, sequences):
    """Of the summed cross-entropy of each next token."""
    loss = 0
    for ids in sequences:
        logits = oracle(torch.tensor([ids])).logits[0]
        loss = loss + torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:], dtype=torch.long), reduction="sum")
    loss.backward()
    return {name: parameter.grad for name, parameter in oracle.named_parameters()}


def gradients_of(driver, sequences, folder, **settings):
    """muster's, flat, by the names of parameters."""
    folder.mkdir()
    driver.ask(sequences, gradients=str(folder), **settings)
    return {path.name: numpy.fromfile(path, dtype=numpy.float32) for path in folder.iterdir()}


def loss_of_logits(logits, sequences):
    """The summed cross-entropy of each next token."""
    logits = logits.astype(numpy.float64)
    highest = logits.max(axis=1, keepdims=True)
    scores = logits - highest - numpy.log(numpy.exp(logits - highest).sum(axis=1, keepdims=True))
    first, loss = 0, 0.0
    for ids in sequences:
        loss -= scores[numpy.arange(first, first + len(ids) - 1), ids[1:]].sum()
        first += len(ids)
    return loss


def assert_gradients_equal(driver, sequences, expected, folder):
    found = gradients_of(driver, sequences, folder / "gradients")
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        ours = found[name].reshape(gradient.shape)
        assert numpy.abs(ours - gradient.numpy()).max() <= 2e-5 * gradient.abs().max().item() + 1e-6, name
