"""Training checkpoints as other tools see them, and their export as transformers loads it."""

import json
import struct

import numpy as np
import pytest
import safetensors.torch
import tokenizers
import torch
import transformers

from checkpoint_driver import Refused, same_bits
from tiny_models import CONFIGS, model_of

TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"


def make_folder(path, family, **more):
    model = model_of(family, **more)
    model.save_pretrained(path)
    letters = tokenizers.Tokenizer(tokenizers.models.BPE({chr(33 + i): i for i in range(94)} | {"Ġ": 94}, []))
    letters.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters.decoder = tokenizers.decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=letters, eos_token="#", chat_template=TEMPLATE)
    tokenizer.save_pretrained(path)
    (path / "additional_chat_templates").mkdir()
    (path / "additional_chat_templates/rag.jinja").write_text("{{ messages }}")
    (path / "notes.txt").write_text("not the model's text")
    return model


def saved(driver, tmp_path, family, ranks=3, **more):
    model = make_folder(tmp_path / "model", family, **more)
    driver.open(tmp_path / "model")
    answer = driver.ask(save=str(tmp_path / "checkpoints"), model=str(tmp_path / "model"), step=100, ranks=ranks)
    return model, answer["path"]


def load(folder):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("written", [False, True])
def test_an_export_is_what_transformers_loads_bit_for_bit(driver, tmp_path, family, dtype, written):
    model, path = saved(driver, tmp_path, family, tie_word_embeddings=family in ("gpt2", "qwen2"))
    folder = tmp_path / "export"
    word = str(dtype).removeprefix("torch.")
    driver.ask(export=str(folder), model=str(tmp_path / "model"), checkpoint=path, shard_bytes=1_000_000, written=written, **{"as": word})
    ours = load(folder)
    assert ours.dtype == dtype
    assert ours.state_dict().keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert same_bits(ours.state_dict()[name], tensor.to(dtype)), name
    ids = torch.arange(24).reshape(1, -1)
    with torch.no_grad():
        theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=dtype)
        assert same_bits(ours(ids).logits, theirs(ids).logits)
    known = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert tokenizer("!+ ~").input_ids == known("!+ ~").input_ids == [0, 10, 94, 93]
    if written:
        assert ours.generation_config.eos_token_id == [2, 3]


def test_an_export_has_its_models_files_byte_for_byte_and_its_config_with_another_type(driver, tmp_path):
    _, path = saved(driver, tmp_path, "llama")
    source, folder = tmp_path / "model", tmp_path / "export"
    driver.ask(export=str(folder), model=str(source), checkpoint=path, **{"as": "bfloat16"})
    files = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert files >= {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}
    assert "additional_chat_templates/rag.jinja" in files and "notes.txt" not in files
    for name in files - {"config.json", "model.safetensors"}:
        assert (folder / name).read_bytes() == (source / name).read_bytes(), name
    before, after = (json.loads((place / "config.json").read_text()) for place in (source, folder))
    assert before["dtype"] == "float32" and after["dtype"] == "bfloat16"
    assert list(before) == list(after) and {**before, "dtype": "bfloat16"} == after
    same = tmp_path / "same"
    driver.ask(export=str(same), model=str(source), checkpoint=path, **{"as": "float32"})
    assert (same / "config.json").read_bytes() == (source / "config.json").read_bytes()


def test_an_export_replaces_an_older_one_only_when_asked_to(driver, tmp_path):
    _, path = saved(driver, tmp_path, "qwen3")
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "old").write_text("")
    question = dict(export=str(folder) + "/", model=str(tmp_path / "model"), checkpoint=path, **{"as": "float16"})
    with pytest.raises(Refused, match="already there"):
        driver.ask(**question)
    driver.ask(**question, replace=True)
    assert load(folder).dtype == torch.float16
    assert not (folder / "old").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_checkpoint_of_another_model_is_refused(driver, tmp_path):
    _, path = saved(driver, tmp_path, "llama")
    make_folder(tmp_path / "wider", "llama", intermediate_size=256)
    with pytest.raises(Refused, match=r"another model: model.layers.0.mlp.\w+_proj.weight is \[512, 256\] there, and \[256, 256\] here"):
        driver.ask(export=str(tmp_path / "export"), model=str(tmp_path / "wider"), checkpoint=path, **{"as": "float32"})


def rotate(number, count):
    return number << np.uint64(count) | number >> np.uint64(64 - count)


def mix(bits):
    bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return bits ^ bits >> np.uint64(31)


def checksum(data: bytes) -> str:
    """As docs/checkpoints.md tells it."""
    words = np.frombuffer(data + bytes(-len(data) % 64), dtype="<u8").reshape(-1, 8)
    with np.errstate(over="ignore"):
        lanes = mix(np.arange(1, 9, dtype=np.uint64))
        for block in words:
            lanes = rotate((lanes ^ block) * np.uint64(0x9E3779B97F4A7C15), 31)
        total = np.array([len(data)], dtype=np.uint64)
        for lane in lanes:
            total = mix(total ^ lane)
    return f"{int(total[0]):016x}"


SMALL = {
    "qwen2": dict(hidden_size=64, intermediate_size=64, vocab_size=96, num_hidden_layers=1),
    "gpt2": dict(n_embd=32, n_layer=1, n_head=2, vocab_size=96, n_positions=64),
}


@pytest.mark.parametrize("family", SMALL)
def test_other_tools_can_read_and_check_a_checkpoint_as_the_page_tells(driver, tmp_path, family):
    model, path = saved(driver, tmp_path, family, **SMALL[family])
    folder = tmp_path / "checkpoints/step-100"
    assert str(folder) == path
    text = (folder / "manifest.json").read_bytes()
    sealed, ending = text.rsplit(b',\n "checksum": ', 1)
    assert ending == b'"%s"\n}\n' % checksum(sealed).encode()
    manifest = json.loads(text)
    assert manifest["format"] == "muster-training-checkpoint" and manifest["state"]["step"] == 100
    found = {}
    for file in manifest["files"]:
        data = (folder / file["name"]).read_bytes()
        assert len(data) == file["size"]
        start = 8 + struct.unpack("<Q", data[:8])[0]
        assert checksum(data[:start]) == file["header_checksum"]
        header = json.loads(data[8:start])
        sums = header.pop("__metadata__")["checksums"].split()
        for (name, entry), told in zip(sorted(header.items(), key=lambda item: item[1]["data_offsets"]), sums, strict=True):
            begin, end = entry["data_offsets"]
            assert checksum(data[start + begin : start + end]) == told
        found.update(safetensors.torch.load_file(folder / file["name"]))
    states = model.state_dict()
    for tensor in manifest["tensors"]:
        assert tensor["transposed"] == (family == "gpt2" and tensor["name"].endswith(("attn.weight", "proj.weight", "fc.weight")))
        for state in tensor["states"]:
            pieces = {int(key.rsplit("@", 1)[1]): piece for key, piece in found.items() if key.rsplit("@", 1)[0] == f"{state}/{tensor['name']}"}
            whole = torch.cat([pieces[first] for first in sorted(pieces)]).reshape(tensor["shape"])
            whole = whole.T if tensor["transposed"] else whole
            number = states[tensor["name"]]
            assert whole.shape == number.shape
            wanted = {"parameter": number, "first_moment": number + 1, "second_moment": number * number}[state]
            assert same_bits(whole, wanted), (state, tensor["name"])
