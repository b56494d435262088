"""Models without weights: a shape, muster's own tokenizer and a chat template, which is all that a plan of training reads."""

import json
import pathlib
import shutil

LLAMA3_8B = dict(
    model_type="llama", hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
    vocab_size=128256, tie_word_embeddings=False, rope_theta=500000.0, rms_norm_eps=1e-5, max_position_embeddings=131072,
)  # fmt: skip
CHAT = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"


def make_bare_model(muster, folder: pathlib.Path, config: dict) -> pathlib.Path:
    """muster: a program that runs with a cache of its own (MUSTER_CACHE)."""
    assert muster("train", "--device", "cpu", "--dry-run").returncode == 0
    folder.mkdir()
    for file in (pathlib.Path(muster.environment["MUSTER_CACHE"]) / "models/llama-0.6m-1").glob("tokenizer*.json"):
        shutil.copy(file, folder)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(CHAT)
    return folder
