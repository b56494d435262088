import json
import pathlib
import re


def test_train_without_settings_is_the_builtin_job(muster, tmp_path):
    result = muster("train", "--print-config", MUSTER_CACHE=str(tmp_path))
    assert result.returncode == 0, result.stderr
    for line in ('path: "builtin:llama-0.6m"', 'path: "builtin:arithmetic"', "max_steps: 1200", "batch_size: 128"):
        assert line in result.stdout


def test_train_names_later_settings_and_never_ignores_them(muster, tmp_path):
    (tmp_path / "run.yaml").write_text("distributed:\n  deepspeed_config: a.json\nmodel:\n  use_lora: true\n")
    result = muster("train", "--config", "run.yaml", "backend=mpi")
    assert result.returncode == 2
    for part in ("run.yaml:2:3: distributed.deepspeed_config: a.json needs DeepSpeed", "distributed.backend: mpi needs MPI"):
        assert part in result.stderr
    assert "model.use_lora" not in result.stderr


def test_print_config_names_every_origin(muster, tmp_path):
    (tmp_path / "run.yaml").write_text("training: {max_steps: 5}\nexperiment_name: first\n")
    result = muster(
        "train", "--config", "run.yaml", "--gpu-ids", "0", "2", "3", "training.batch_size=6", "--device", "cuda", "--print-config", MUSTER_TRAINING_WARMUP_STEPS="1"
    )
    assert result.returncode == 0, result.stderr
    origin = {}
    for line in result.stdout.splitlines():
        text, _, where = line.partition("  # ")
        origin[text.strip()] = where.strip()
    assert origin["max_steps: 5"] == "run.yaml:1:12"
    assert origin["name: first"] == "run.yaml:2:1"
    assert origin["warmup_steps: 1"] == "MUSTER_TRAINING_WARMUP_STEPS"
    assert origin["gpu_ids: [0, 2, 3]"] == "--gpu-ids"
    assert origin["batch_size: 6"] == "training.batch_size=6"
    assert origin["logging_steps: 1"] == "built-in"
    assert "experiment_name is read as experiment.name" in result.stderr


def test_json_has_every_value_with_its_origin(muster):
    shown = json.loads(muster("config", "training.max_steps=3", "--json").stdout)
    assert shown["training.max_steps"] == {"value": "3", "origin": "training.max_steps=3"}
    assert shown["distributed.strategy"]["origin"] == "built-in"


def test_all_problems_come_at_once(muster, tmp_path):
    (tmp_path / "run.yaml").write_text("distributed:\n  num_gpu: 2\ntraining:\n  max_steps: x\n")
    result = muster("train", "--config", "run.yaml", "nonsense=1")
    assert result.returncode == 2
    assert "run.yaml:2:3" in result.stderr and "run.yaml:4:3" in result.stderr and "nonsense" in result.stderr
    assert muster("train", "--config", "missing.yaml").returncode == 2


def test_config_lists_and_finds_settings(muster):
    assert "distributed.num_gpus = null" in muster("config").stdout
    assert len(muster("config", "--find", "num_gpus").stdout.splitlines()) == 3


def test_help_and_version(muster):
    assert muster("--version").stdout.startswith("muster ")
    for command in ([], ["gpus"], ["gpus", "pick"], ["gpus", "hold"], ["doctor"], ["config"], ["train"]):
        result = muster(*command, "--help")
        assert result.returncode == 0 and "--help" in result.stdout, command
    nothing = muster()
    assert nothing.returncode == 2 and "gpus" in nothing.stdout
    wrong = muster("gups")
    assert wrong.returncode == 2 and "try: muster gpus" in wrong.stderr
    assert "muster --help" in muster("somethingelse").stderr
    assert muster("gpus", "--jsn").returncode == 2
    assert muster("train", "--", "x").returncode == 2
    assert muster("gpus", "--", "x").returncode == 2


def test_what_only_a_run_shows(muster, tmp_path):
    """The settings whose effect tests/unit/service/settings_walk_test.cpp cannot see."""
    words = ("--name", "first", "--output", "here", "experiment.description=a sentence", "experiment.tags=[one, two]", "training.logging_steps=3")
    muster.inventory("gpus: []\n")
    result = muster("train", "--device", "cpu", "training.max_steps=4", "training.batch_size=4", *words, MUSTER_CACHE=str(tmp_path / "cache"))
    assert result.returncode == 0, result.stderr
    (folder,) = (tmp_path / "here").iterdir()
    assert folder.name.startswith("first")
    steps = [line.split("/")[0] for line in result.stderr.splitlines() if line.startswith("step ")]
    assert steps == ["step 1", "step 3", "step 4"]
    shown = muster("runs", "show", folder.name, "--output", "here").stdout
    assert "a sentence" in shown and "[one, two]" in shown


def test_the_page_about_data_shows_the_defaults_of_made_questions(muster):
    page = (pathlib.Path(__file__).resolve().parents[3] / "docs/data.md").read_text()
    table = page.split("| setting | default | meaning |")[1].split("\n\n")[0]
    shown = {name: value.strip("`") for name, value in re.findall(r"^\| (\w+) \| (\S+) \|", table, re.MULTILINE)}
    values = json.loads(muster("config", "training.max_steps=3", "--json").stdout)
    assert shown.pop("operations") == "+" and values["data.operations"]["value"] == "[]", "none named: sums alone"
    assert set(shown) == {"digits", "held_out"}
    assert {name: values[f"data.{name}"]["value"] for name in shown} == shown


def test_the_start_says_which_turns_of_conversations_are_trained_on_and_how_many_tokens(muster, bare_model, tmp_path):
    muster.inventory("gpus: []\n")
    model = bare_model({"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
                        "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 259})  # fmt: skip
    said = [{"role": role, "content": text} for role, text in (("user", "a"), ("assistant", "bcd"), ("user", "e"), ("assistant", "f"))]
    (tmp_path / "talk.jsonl").write_text((json.dumps({"messages": said}) + "\n") * 8)
    words = ("train", "-m", str(model), "model.init=random", "--data", "talk.jsonl", "--device", "cpu", "training.max_steps=1", "training.batch_size=8")
    tokens = {}
    for which, spoken in (("all", "every turn"), ("last", "only the last turn")):
        done = muster(*words, f"data.train_on={which}")
        assert done.returncode == 0, done.stderr
        found = re.search(rf"8 conversations: {spoken} of the assistant is trained on \(data.train_on={which}\), (\d+) of (\d+) tokens", done.stderr)
        assert found, done.stderr
        tokens[which] = tuple(map(int, found.groups()))
    assert 0 < tokens["last"][0] < tokens["all"][0] < tokens["all"][1] == tokens["last"][1]
    assert tokens["all"][0] - tokens["last"][0] == 8 * len("bcd\n"), "the first answer of each, a byte a token"
