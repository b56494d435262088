"""Small random models of every family, and GGUF files made of them the way llama.cpp's converter lays them out."""

import gguf
import numpy as np
import torch
import transformers

# Heads of 64 and rows of 256: every block type of GGUF fits.
ROTARY = dict(
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=96,
    max_position_embeddings=128,
)
CONFIGS = {
    "llama": lambda **more: transformers.LlamaConfig(**{**ROTARY, **more}),
    "mistral": lambda **more: transformers.MistralConfig(**{**ROTARY, "sliding_window": 32, **more}),
    "qwen2": lambda **more: transformers.Qwen2Config(**{**ROTARY, **more}),
    "qwen3": lambda **more: transformers.Qwen3Config(**{**ROTARY, "head_dim": 64, **more}),
    "gpt2": lambda **more: transformers.GPT2Config(
        **{**dict(n_embd=256, n_layer=2, n_head=4, n_positions=64, vocab_size=96), **more}
    ),
}


def model_of(family: str, seed: int = 0, **more) -> torch.nn.Module:
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[family](**more)).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases, too, so that a mix-up shows
            parameter.add_(torch.randn_like(parameter) * 0.02)
    return model


def with_llama3_factors() -> tuple[torch.nn.Module, np.ndarray]:
    """A model whose positions are scaled as Llama 3.1's, and the factors that a GGUF file has for that."""
    scaling = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    model = model_of("llama", rope_parameters=scaling, max_position_embeddings=32768)
    plain = 1.0 / (500000.0 ** (torch.arange(0, 64, 2, dtype=torch.float64) / 64))
    return model, (plain / model.model.rotary_emb.inv_freq.double()).float().numpy()


def interleave(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows as llama's files have them: in each head, the two elements of a rotated pair beside each other."""
    pairs = weight.shape[0] // heads // 2
    return weight.reshape(heads, 2, pairs, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def gguf_tensors(model) -> dict[str, np.ndarray]:
    config = model.config
    names = gguf.get_tensor_name_map(
        {"llama": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2, "qwen3": gguf.MODEL_ARCH.QWEN3, "gpt2": gguf.MODEL_ARCH.GPT2}[
            config.model_type
        ],
        config.num_hidden_layers,
    )
    tensors = {}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        stem, kind = name.rsplit(".", 1)
        array = tensor.float().numpy()
        if config.model_type == "llama" and stem.endswith(("q_proj", "k_proj")):
            heads = config.num_attention_heads if stem.endswith("q_proj") else config.num_key_value_heads
            array = interleave(array, heads)
        if config.model_type == "gpt2" and array.ndim == 2 and stem.split(".")[-1].startswith("c_"):
            array = array.T
        tensors[f"{names.get_name(stem)}.{kind}"] = np.ascontiguousarray(array)
    return tensors


def write_gguf(path, model, quantised: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32, random=None, edit=None, **split):
    """Matrices as `quantised` (K and IQ types: blocks of random bits, since no quantiser is at hand), the rest as F32.

    Returns the file's numbers as gguf's own dequantisation gives them, under GGUF's names.
    """
    config = model.config
    writer = gguf.GGUFWriter(str(path), config.model_type, **split)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_vocab_size(config.vocab_size)
    if config.model_type == "gpt2":
        writer.add_feed_forward_length(config.n_inner or 4 * config.n_embd)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
        writer.add_key_length(config.head_dim if getattr(config, "head_dim", None) else config.hidden_size // config.num_attention_heads)
    if edit:
        edit(writer)
    held = {}
    for name, array in gguf_tensors(model).items():
        kind = quantised if array.ndim == 2 else gguf.GGMLQuantizationType.F32
        packed = pack(array, kind, random)
        writer.add_tensor(name, packed, raw_dtype=kind)
        held[name] = gguf.dequantize(packed, kind).reshape(array.shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held


# Where the halves of a block that gguf cannot make lie: its scale, and its minimum where it has one.
HALVES = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,)}


def pack(array: np.ndarray, kind: gguf.GGMLQuantizationType, random) -> np.ndarray:
    if kind.name not in HALVES:
        return gguf.quantize(array, kind)
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (array.size // elements, size), dtype=np.uint8)
    for place in HALVES[kind.name]:
        scales = (random.random(len(blocks)) * 0.01 - 0.005).astype(np.float16)
        blocks[:, place : place + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(array.shape[0], -1)
