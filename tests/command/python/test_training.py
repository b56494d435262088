"""muster.training: from a script's arguments to settings, and to a run of the program."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import muster
from machine import python, python_output
from muster import DistributedTrainer, FastLanguageModel, MultiGPUConfig
from muster._rewards import RewardServer
from muster._training_arguments import settings_of

ROOT = Path(__file__).resolve().parents[3]
REAL = ROOT / "build/engine/apps/cli/muster"
ROWS = [{"prompt": f"{a}+{b}=", "completion": str(a + b)} for a in range(4) for b in range(4)]

# A program that says what it was given, and does as EXIT says.
FAKE = """#!{python}
import json, os, signal, sys, time
given = json.load(open(sys.argv[sys.argv.index("--config") + 1]))
with open("calls.jsonl", "a") as file:
    names = ("RANK", "WORLD_SIZE", "MASTER_PORT", "MUSTER_PROGRAM")
    file.write(json.dumps({{"words": sys.argv[1:], "settings": given, "seen": [n for n in names if n in os.environ]}}) + "\\n")
def leave(number, frame):
    open("signals", "a").write(f"{{number}}\\n")
    print(json.dumps({{"status": "interrupted", "steps": 3, "final_loss": 1.5, "folder": "runs/x"}}), flush=True)
    sys.exit(128 + number)
signal.signal(signal.SIGINT, leave)
signal.signal(signal.SIGTERM, leave)
print("step 1/2", file=sys.stderr)
if os.environ.get("HANG"):
    open("started", "w").close()
    time.sleep(60)
print(json.dumps({{"status": "done", "steps": 2, "final_loss": 1.25, "folder": "runs/x"}}))
sys.exit(int(os.environ.get("EXIT", "0")))
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    program = tmp_path / "fake-muster"
    program.write_text(FAKE.format(python=sys.executable).replace("\\\\n", "\\n"))
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTER_PROGRAM", str(program))
    return tmp_path


def calls(folder):
    return [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]


def trainer(**changes):
    arguments = {"model": "builtin:llama-0.6m", "train_dataset": ROWS, "args": {"max_steps": 2}, **changes}
    return DistributedTrainer(**arguments)


def test_the_arguments_of_the_guide_become_settings():
    assert settings_of(
        {
            "per_device_train_batch_size": 2,
            "gradient_accumulation_steps": 4,
            "warmup_steps": 5,
            "max_steps": 100,
            "learning_rate": 2e-4,
            "logging_steps": 1,
            "output_dir": "./outputs",
            "bf16": True,
            "fp16": False,
            "gradient_checkpointing": True,
            "dataloader_num_workers": 4,
            "dataloader_pin_memory": True,
            "optim": "adamw_torch_fused",
            "lr_scheduler_type": "cosine",
        }
    ) == {
        "training.micro_batch_size": 2,
        "training.gradient_accumulation_steps": 4,
        "training.warmup_steps": 5,
        "training.max_steps": 100,
        "training.learning_rate": 2e-4,
        "training.logging_steps": 1,
        "experiment.output": "./outputs",
        "training.bf16": True,
        "training.fp16": False,
        "training.gradient_checkpointing": "full",
        "training.dataloader_num_workers": 4,
        "training.dataloader_pin_memory": True,
        "training.optimizer": "adamw_fused",
        "training.lr_scheduler": "cosine",
    }


@pytest.mark.parametrize("name", ["adamw_8bit", "adamw_bnb_8bit"])
def test_moments_in_eight_bits_have_the_names_that_transformers_has(name):
    assert settings_of({"optim": name}) == {"training.optimizer": "adamw_8bit"}


def test_any_setting_of_musters_can_be_given_by_its_name():
    assert settings_of({"training.deterministic": True, "max_steps": 3}) == {
        "training.deterministic": True,
        "training.max_steps": 3,
    }


@dataclasses.dataclass
class Arguments:
    output_dir: str = "out"
    max_steps: int = -1
    num_train_epochs: float = 3.0
    save_strategy: str = "no"
    save_steps: float = 500
    torch_compile: bool = False
    label_smoothing_factor: float = 0.0
    derived: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.derived.append(self.output_dir)


def test_an_object_gives_its_defaults_too_and_what_is_not_known_counts_only_where_it_was_changed():
    assert settings_of(Arguments()) == {"experiment.output": "out", "training.num_epochs": 3}
    assert settings_of(Arguments(output_dir="there", max_steps=7)) == {
        "experiment.output": "there",
        "training.max_steps": 7,
    }
    with pytest.raises(ValueError, match=r"torch_compile=True[\s\S]*label_smoothing_factor=0.1"):
        settings_of(Arguments(torch_compile=True, label_smoothing_factor=0.1))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"learning_rat": 1e-4}, "learning_rate"),
        ({"lr_scheduler_type": "polynomial"}, "lr_scheduler_type"),
        ({"optim": "lion"}, "optim"),
        ({"num_train_epochs": 1.5}, "not a whole number"),
        ({"fp16": True, "bf16": True}, "both True"),
        ({"warmup_ratio": 0.1}, "warmup_steps"),
        ({"save_strategy": "epoch"}, "save_strategy"),
    ],
)
def test_arguments_that_cannot_be_honoured_are_refused_by_name(arguments, words):
    with pytest.raises(ValueError, match=words):
        settings_of(arguments)


def test_transformers_own_arguments_are_understood():
    code = """
import transformers
from muster._training_arguments import settings_of
args = transformers.TrainingArguments(output_dir="o", max_steps=5, per_device_train_batch_size=2, use_cpu=False,
                                      learning_rate=2e-4, save_strategy="no", report_to="none", bf16=False)
found = settings_of(args)
assert found["training.max_steps"] == 5 and found["training.learning_rate"] == 2e-4, found
assert found["training.optimizer"] in ("adamw", "adamw_fused") and "training.num_epochs" not in found, found
try:
    settings_of(transformers.TrainingArguments(output_dir="o", torch_empty_cache_steps=3))
except ValueError as error:
    assert "torch_empty_cache_steps=3" in str(error) and str(error).count("try:") == 1, error
else:
    raise SystemExit("an unknown argument was passed over")
"""
    child = python(code)
    _, errors = child.communicate(timeout=120)
    assert child.returncode == 0, errors


@pytest.mark.parametrize(
    "wish",
    [
        {"load_in_4bit": True, "load_in_8bit": True},
        {"full_finetuning": True, "load_in_8bit": True},
        {"device_map": "balanced"},
        {"auto_device_map": False},
        {"trust_remote_code": True},
        {"dtype": "int7"},
    ],
)
def test_a_model_that_cannot_be_had_so_is_refused_by_name(wish):
    with pytest.raises(ValueError, match=next(iter(wish))):
        FastLanguageModel.from_pretrained("builtin:llama-0.6m", **wish)


def test_weights_in_few_bits_and_adapters_become_settings():
    lora = {"model.use_lora": True}
    for wish, settings in (
        ({"load_in_4bit": True}, {"model.load_in_4bit": True} | lora),
        ({"load_in_8bit": True}, {"model.load_in_8bit": True} | lora),
        ({"full_finetuning": False}, lora),
        ({}, {}),
    ):
        model, _ = FastLanguageModel.from_pretrained("builtin:llama-0.6m", **wish)
        assert model.settings == {"model.path": "builtin:llama-0.6m"} | settings
    adapted = FastLanguageModel.get_peft_model(model, r=4, target_modules=["q_proj", "v_proj"], lora_alpha=8)
    assert adapted.settings == model.settings | lora | {
        "model.lora_r": 4,
        "model.lora_alpha": 8,
        "model.lora_dropout": 0.0,
        "model.lora_target_modules": ["q_proj", "v_proj"],
        "model.use_rslora": False,
        "model.use_dora": False,
    }
    whole = FastLanguageModel.get_peft_model(model, use_dora=True, modules_to_save=["lm_head"])
    assert whole.settings["model.use_dora"] is True and whole.settings["model.modules_to_save"] == ["lm_head"]
    with pytest.raises(ValueError, match="bias='all'"):
        FastLanguageModel.get_peft_model(model, bias="all")


def test_a_model_that_is_not_there_is_said_at_once():
    with pytest.raises(ValueError, match="no-such-model"):
        FastLanguageModel.from_pretrained("no-such-model")


@pytest.mark.parametrize(
    "config",
    [
        MultiGPUConfig(tensor_parallel=True),
        MultiGPUConfig(pipeline_parallel=True),
        MultiGPUConfig(init_method="tcp://127.0.0.1:1"),
    ],
)
def test_a_configuration_that_training_cannot_honour_is_refused(config):
    with pytest.raises(ValueError, match="cannot honour"):
        trainer(multi_gpu_config=config)


def test_the_program_gets_all_settings_and_the_rows(fake):
    model, tokenizer = FastLanguageModel.from_pretrained(
        "builtin:llama-0.6m", max_seq_length=64, use_multi_gpu=False, max_memory={0: "10GB"}
    )
    FastLanguageModel.for_training(model)
    made = DistributedTrainer(
        model=model,
        tokenizer=tokenizer,
        train_dataset=[{"text": "a", "source": "b"}, {"messages": [{"role": "user", "content": "c"}]}],
        args={"max_steps": 2, "output_dir": "out"},
        multi_gpu_config=MultiGPUConfig(backend="gloo", timeout_minutes=9.5, use_gradient_checkpointing=True, find_unused_parameters=True),
    )
    output = made.train()
    assert (output.global_step, output.training_loss, output.exit_code) == (2, 1.25, 0)
    (call,) = calls(fake)
    data = call["settings"]["data"]["path"]
    assert call["settings"] == {
        "model": {"path": "builtin:llama-0.6m", "max_memory": {"0": "10GB"}},
        "training": {"sequence_length": 64, "max_steps": 2, "gradient_checkpointing": "full"},
        "distributed": {"enabled": False, "timeout_minutes": 10, "backend": "gloo", "find_unused_parameters": True},
        "experiment": {"output": "out"},
        "data": {"path": data},
    }
    rows = [json.loads(line) for line in Path(data).read_text().splitlines()]
    assert rows == [{"text": "a"}, {"messages": [{"role": "user", "content": "c"}]}]
    assert call["seen"] == []


@pytest.mark.parametrize("rows", [[], [{"question": "?"}], [{"text": "a", "prompt": "b", "completion": "c"}]])
def test_rows_that_cannot_be_trained_on_are_refused(fake, rows):
    with pytest.raises(ValueError, match="rows|row 0"):
        trainer(train_dataset=rows).train()


@pytest.mark.parametrize(("code", "error"), [(1, RuntimeError), (2, ValueError), (3, muster.RefusedError)])
def test_a_program_that_fails_is_an_exception(fake, monkeypatch, code, error):
    monkeypatch.setenv("EXIT", str(code))
    with pytest.raises(error, match=f"exit code {code}"):
        trainer().train()


def test_resuming_is_a_setting(fake):
    trainer().train(resume_from_checkpoint=True)
    trainer().train(resume_from_checkpoint="runs/that")
    assert [call["settings"]["experiment"]["resume"] for call in calls(fake)] == ["auto", "runs/that"]


SCRIPT = """
from muster import DistributedTrainer
output = DistributedTrainer("builtin:llama-0.6m", train_dataset=[{"text": "a b"}], args={"max_steps": 2}).train()
print(output.global_step, output.exit_code)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_program_once_and_its_end_is_waited_for(fake, number):
    child = python(SCRIPT, env={**os.environ, "HANG": "1"})
    while not (fake / "started").exists():
        time.sleep(0.01)
        assert child.poll() is None
    child.send_signal(number)
    output, errors = child.communicate(timeout=60)
    assert (fake / "signals").read_text() == f"{int(number)}\n"
    if number == signal.SIGINT:
        assert "KeyboardInterrupt" in errors
    else:
        assert output.split() == ["3", str(128 + number)]


# The signal comes before this process knows that the program runs.
EARLY = """
import os, signal, subprocess, time
popen = subprocess.Popen
def started_and_signalled(*words, **options):
    child = popen(*words, **options)
    while not os.path.exists("started"):
        time.sleep(0.01)
    signal.raise_signal(int(os.environ["NUMBER"]))
    return child
subprocess.Popen = started_and_signalled
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_program_is_being_started_reaches_it_too(fake, number):
    child = python(EARLY + SCRIPT, env={**os.environ, "HANG": "1", "NUMBER": str(int(number))})
    output, errors = child.communicate(timeout=120)
    assert (fake / "signals").read_text() == f"{int(number)}\n", errors
    assert "KeyboardInterrupt" in errors if number == signal.SIGINT else output.split() == ["3", str(128 + number)]


def test_a_program_that_is_killed_is_an_exception(fake):
    (fake / "fake-muster").write_text("#!/bin/sh\nkill -9 $$\n")
    with pytest.raises(RuntimeError, match="killed by SIGKILL"):
        trainer().train()


def test_of_launched_ranks_the_first_starts_the_program_and_all_get_its_result(fake):
    (fake / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", "WORLD_SIZE": "3"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "script.py"],
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in (2, 1, 0)
    ]
    assert [rank.communicate(timeout=60)[0].split() for rank in ranks] == [["2", "0"]] * 3
    (call,) = calls(fake)
    assert call["settings"]["distributed"] == {"ranks": 3}
    assert call["seen"] == []


def test_ranks_hear_that_the_first_one_failed(fake):
    environment = {**os.environ, "MASTER_PORT": "29511", "WORLD_SIZE": "2", "EXIT": "2"}
    ranks = [python(SCRIPT, env={**environment, "RANK": str(rank)}) for rank in (1, 0)]
    errors = [rank.communicate(timeout=60)[1] for rank in ranks]
    assert "rank 0 failed: muster train ended with exit code 2" in errors[0]
    assert "ValueError" in errors[1]


@pytest.mark.skipif(not REAL.exists(), reason="muster is not built")
def test_the_script_of_the_page_trains(tmp_path, monkeypatch):
    page = (ROOT / "docs/python.md").read_text()
    (block,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    monkeypatch.setenv("MUSTER_PROGRAM", str(REAL))
    monkeypatch.setenv("MUSTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    first, second = python_output(block, cwd=tmp_path).splitlines()
    assert first.startswith(f"5 {tmp_path}/outputs/train-")
    assert second.startswith("CPU rank 0: 0.")


@pytest.mark.skipif(not REAL.exists(), reason="muster is not built")
def test_a_script_trains_a_model_and_sees_its_memory(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTER_PROGRAM", str(REAL))
    monkeypatch.setenv("MUSTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    model, tokenizer = FastLanguageModel.from_pretrained("builtin:llama-0.6m", max_seq_length=32)
    made = DistributedTrainer(
        model=FastLanguageModel.for_training(model),
        tokenizer=tokenizer,
        train_dataset=ROWS,
        args={"max_steps": 3, "per_device_train_batch_size": 2, "output_dir": "outputs", "distributed.ranks": 2},
    )
    made.print_memory_stats()
    output = made.train()
    assert output.global_step == 3
    assert [row["step"] for row in output.history()] == [1, 2, 3]
    assert output.history()[-1]["loss"] == output.training_loss
    assert (output.model / "model.safetensors").exists()
    usage = made.get_model_memory_usage()
    assert set(usage) == {"cpu_0", "cpu_1"}
    for numbers in usage.values():
        assert 0 < numbers["allocated"] <= numbers["max_allocated"] < 8
    made.print_memory_stats()
    shown = capfd.readouterr()
    assert "no GPU is visible; CPU ranks report their memory while they train" in shown.out
    assert "CPU rank 1: 0." in shown.out
    assert "step 3/3" in shown.err


def test_before_training_no_gpu_holds_anything_of_the_trainer(machine, capsys):
    machine.has_a100s(2, used=[1234])
    made = trainer()
    assert made.get_model_memory_usage() == {
        gpu: {"allocated": 0.0, "cached": 0.0, "max_allocated": 0.0} for gpu in ("gpu_0", "gpu_1")
    }
    made.print_memory_stats()
    assert capsys.readouterr().out.splitlines()[1] == "GPU 1: 0.00 GiB allocated, 0.00 GiB cached, 0.00 GiB at most"


def judged(muster_home, rewards, **changes):
    args = {"training.max_steps": 2, "training.num_rollouts_per_iteration": 16, "grpo.num_generations": 4,
            "generation.max_new_tokens": 4, "training.sequence_length": 32, "model.init": "random", "distributed.ranks": 2,
            "distributed.device": "cpu", "experiment.output": str(muster_home / "runs")}
    return DistributedTrainer("builtin:llama-0.2m", train_dataset=[{"prompt": f"{a}+{a}=", "sum": 2 * a} for a in range(8)],
                              args=args, rewards=rewards, **changes)


@pytest.fixture
def real(tmp_path, monkeypatch):
    monkeypatch.setenv("MUSTER_PROGRAM", str(REAL))
    monkeypatch.setenv("MUSTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_functions_of_the_caller_judge_what_the_model_answers(real):
    seen = []

    def length(prompts, completions, completion_ids, sum):
        assert all(1 <= len(ids) <= 4 for ids in completion_ids)
        seen.extend(zip(prompts, completions, sum))
        return [float(len(completion)) for completion in completions]

    def unsure(completions, **columns):
        return [None if columns["sum"][i] == 6 else 1.0 for i in range(len(completions))]

    output = judged(real, [length, unsure], reward_weights=[1, 0.5]).train()
    assert output.exit_code == 0 and len(seen) == 32
    assert {f"{a}+{a}=" for a in range(8)} >= {prompt for prompt, _, _ in seen}
    assert all(prompt == f"{value // 2}+{value // 2}=" for prompt, _, value in seen)
    lines = (output.folder / "rollouts/round-000001.jsonl").read_text().splitlines()[1:]
    for answer in map(json.loads, lines):
        known = 0 if answer["question"] == "3+3=" else 0.5
        assert answer["reward"] == len(answer["answer"]) + known
    assert output.history()[0]["reward"] is not None


def test_functions_get_tokens_and_conversations_as_trl_hands_them_over():
    seen = {}

    def judge(prompts, completions, completion_ids, level):
        seen.update(prompts=prompts, completions=completions, ids=completion_ids, level=level)
        return [1.0, None]

    asked = [{"role": "user", "content": "2+2?"}]
    common = {"id": 0, "completion": "4", "answer": "4", "tokens": 2, "ids": [52, 2], "finish": "stop", "left": 0, "prompt": "<user>2+2?"}
    rows = [{"messages": [*asked, {"role": "assistant", "content": "4"}], "level": 1}, {"prompt": "2+2=", "level": 2}]
    with RewardServer([judge]) as server:
        assert server._judge([common | {"row": row} for row in rows]) == [1.0, None]
    assert seen == {"prompts": [asked, "<user>2+2?"], "completions": [[{"role": "assistant", "content": "4"}], "4"],
                    "ids": [[52, 2], [52, 2]], "level": [1, 2]}


def test_a_function_that_raises_ends_the_run_and_is_raised(real):
    def broken(completions, **columns):
        raise LookupError("no such key")

    with pytest.raises(LookupError, match="no such key"):
        judged(real, [broken]).train()


class Adding:
    """Two sums in a row; prints, which must disturb nobody."""

    seen: list = []

    def reset(self, row, seed):
        self.sum, self.turn = row["sum"], 0
        print("an episode begins")
        return f"{self.sum // 2}+{self.sum // 2}="

    def step(self, answer):
        self.turn += 1
        self.seen.append((self.sum, self.turn, answer))
        return "again:", None if self.sum == 6 else float(len(answer)), self.turn == 2, {"sum": self.sum}


def acted(muster_home, environment, **changes):
    made = judged(muster_home, None, environment=environment)
    made.train_dataset = [{"sum": 2 * a} for a in range(8)]
    made._settings |= {"generation.max_new_tokens": 24, "training.sequence_length": 64, "generation.stop_tokens": [32, 101, 116]} | changes
    return made


def test_environments_of_the_caller_are_what_the_model_acts_in(real):
    Adding.seen.clear()
    output = acted(real, Adding).train()
    assert output.exit_code == 0
    lines = (output.folder / "rollouts/round-000001.jsonl").read_text().splitlines()[1:]
    answers = [json.loads(line) for line in lines]
    assert len(answers) == 16 and any(len(answer["turns"]) == 2 for answer in answers)
    for answer in answers:
        rewards = [turn["reward"] for turn in answer["turns"]]
        assert rewards == [None if answer["question"] == "3+3=" else float(len(turn["answer"])) for turn in answer["turns"]]
        assert answer["reward"] == (None if None in rewards else sum(rewards))
    assert {turn for _, turn, _ in Adding.seen} == {1, 2}


def test_a_session_that_raises_ends_the_run_and_is_raised(real):
    class Broken(Adding):
        def step(self, answer):
            raise LookupError("no such key")

    with pytest.raises(LookupError, match="no such key"):
        acted(real, Broken, **{"environment.program_restarts": 0}).train()


def test_an_environment_is_one_and_stands_in_the_place_of_rewards(real):
    with pytest.raises(TypeError, match="begins no sessions"):
        acted(real, 3).train()
    with pytest.raises(ValueError, match="keep one of the two"):
        judged(real, [len], environment=Adding)


@pytest.mark.parametrize("rewards, words", [([], "not a function"), ([3], "not a function")])
def test_rewards_that_are_no_functions_are_refused(real, rewards, words):
    with pytest.raises(TypeError, match=words):
        judged(real, rewards).train()


def test_one_weight_for_each_function(real):
    with pytest.raises(ValueError, match="2 weights, and rewards 1 functions"):
        judged(real, [len], reward_weights=[1, 2]).train()
