"""Small random config.json texts of every family, with the keys that people leave out left out."""

import random

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gpt2", "arcee")
ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "arcee": "ArceeForCausalLM",
}
ACTIVATIONS = ("silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "relu2", "quick_gelu", "tanh", "mish")
ROPE = (
    {"rope_theta": 10000.0},
    {"rope_theta": 500000, "rope_scaling": None},
    {"rope_scaling": {"type": "linear", "factor": 2.0}},
    {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}, "rope_theta": 10000.0},
    {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
    {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1000000.0}},
    {"rope_parameters": {"rope_type": "linear", "factor": 8.0, "rope_theta": 10000.0}},
)


def maybe(chance: random.Random, **values) -> dict:
    """Each of them, or not."""
    return {key: value for key, value in values.items() if chance.random() < 0.5}


def common(chance: random.Random, family: str) -> dict:
    values = {"model_type": family, "vocab_size": chance.randrange(1, 3000)}
    if chance.random() < 0.5:
        values["architectures"] = [ARCHITECTURES[family]]
    values |= maybe(chance, tie_word_embeddings=chance.random() < 0.5)
    values |= maybe(chance, **{chance.choice(("dtype", "torch_dtype")): chance.choice(("float32", "bfloat16", "half", None))})
    return values


def gpt2(chance: random.Random) -> dict:
    heads = chance.randrange(1, 7)
    old = {
        "n_embd": heads * chance.randrange(1, 12),
        "n_head": heads,
        "n_layer": chance.randrange(1, 5),
        "n_positions": chance.randrange(1, 300),
    }
    new = {"n_embd": "hidden_size", "n_head": "num_attention_heads", "n_layer": "num_hidden_layers",
           "n_positions": "max_position_embeddings"}
    values = {new[key] if chance.random() < 0.5 else key: value for key, value in old.items()}
    values |= maybe(chance, n_ctx=old["n_positions"], n_inner=chance.choice((None, chance.randrange(1, 200))),
                    activation_function=chance.choice(ACTIVATIONS), embd_pdrop=0.0, attn_pdrop=0.25, resid_pdrop=0)
    return common(chance, "gpt2") | values


def windows(chance: random.Random, family: str, layers: int) -> dict:
    values = maybe(chance, sliding_window=chance.choice((None, chance.randrange(1, 9000))))
    if family == "mistral":
        return values
    values |= maybe(chance, use_sliding_window=chance.random() < 0.7, max_window_layers=chance.randrange(0, 6))
    if chance.random() < 0.3:
        values["layer_types"] = [chance.choice(("full_attention", "sliding_attention")) for _ in range(layers)]
    return values


def rotary(chance: random.Random, family: str) -> dict:
    kv_heads = chance.randrange(1, 5)
    heads = kv_heads * chance.randrange(1, 5)
    size = 2 * chance.randrange(2, 20)  # of 2 transformers cannot compute the dynamic kind
    layers = chance.randrange(1, 5)
    values = {
        "hidden_size": heads * size,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": kv_heads,
        "intermediate_size": chance.randrange(1, 400),
    }
    values |= maybe(chance, max_position_embeddings=chance.randrange(64, 9000), hidden_act=chance.choice(ACTIVATIONS),
                    attention_dropout=chance.choice((0, 0.0, 0.1)), attention_bias=chance.random() < 0.5,
                    mlp_bias=chance.random() < 0.5)
    if chance.random() < 0.4:
        values["head_dim"] = 2 * chance.randrange(2, 40)
    elif family == "qwen3":
        values["head_dim"] = size
    if family in ("llama", "qwen2", "qwen3", "arcee") and chance.random() < 0.3:
        values["num_key_value_heads"] = None
    elif family in ("llama", "arcee") and chance.random() < 0.3:
        del values["num_key_value_heads"]
    if family not in ("llama", "arcee"):
        values |= windows(chance, family, layers)
    return common(chance, family) | values | chance.choice(ROPE)


def random_config(chance: random.Random, family: str) -> dict:
    values = gpt2(chance) if family == "gpt2" else rotary(chance, family)
    keys = list(values)
    chance.shuffle(keys)
    return {key: values[key] for key in keys}
