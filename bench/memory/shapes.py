"""The models whose memory is measured: public shapes, as AutoConfig.for_model takes them."""


def llama(model_type, hidden, intermediate, layers, heads, kv_heads, vocabulary, tied, **more):
    return dict(model_type=model_type, hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers,
                num_attention_heads=heads, num_key_value_heads=kv_heads, vocab_size=vocabulary,
                tie_word_embeddings=tied, max_position_embeddings=32768, pad_token_id=None, bos_token_id=1,
                eos_token_id=2, **more)


shapes = {
    "smollm2-135m": llama("llama", 576, 1536, 30, 9, 3, 49152, True),
    "qwen2-0.5b": llama("qwen2", 896, 4864, 24, 14, 2, 151936, True),
    "qwen2-1.5b": llama("qwen2", 1536, 8960, 28, 12, 2, 151936, True),
    "qwen3-0.6b": llama("qwen3", 1024, 3072, 28, 16, 8, 151936, True, head_dim=128),
    "llama-3.2-1b": llama("llama", 2048, 8192, 16, 32, 8, 128256, True),
    "llama-3.1-8b": llama("llama", 4096, 14336, 32, 32, 8, 128256, False),
    "mistral-small": llama("mistral", 4096, 14336, 4, 32, 8, 32768, False, sliding_window=None),
    "mistral-7b": llama("mistral", 4096, 14336, 32, 32, 8, 32768, False, sliding_window=None),
    "tinyllama-1.1b": llama("llama", 2048, 5632, 22, 32, 4, 32000, False),
    "gpt2": dict(model_type="gpt2"),
    "gpt2-medium": dict(model_type="gpt2", n_embd=1024, n_layer=24, n_head=16),
    "trace-llama": llama("llama", 720, 1888, 3, 10, 2, 5003, False, head_dim=64),
    "trace-qwen2": llama("qwen2", 640, 1888, 3, 10, 2, 5003, True),
    "trace-qwen3": llama("qwen3", 720, 1888, 3, 10, 2, 5003, True, head_dim=64),
    "trace-gpt2": dict(model_type="gpt2", n_embd=640, n_layer=3, n_head=10, vocab_size=5003, n_positions=512,
                       bos_token_id=1, eos_token_id=2),
}
