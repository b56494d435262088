"""`muster plan` as a user runs it: what it accepts, what it refuses, and that every remedy it prints is true."""

import json
import os
import shlex
import subprocess
import xml.etree.ElementTree

import pytest

from plan_questions import FIXTURES as MODELS
from plan_questions import HOSTS, Question, inventory

COMPONENTS = {"weights", "quantization", "buffers", "master_weights", "gradients", "optimizer", "adapters", "reference", "reward_model", "critic", "activations",
              "logits", "kv_cache", "gathered", "buckets", "workspace", "allocator_slack", "nccl", "cuda_context"}
BEYOND_THE_PEAK = {"allocator_slack", "nccl", "cuda_context"}


@pytest.fixture
def host(muster):
    """Gives the machine the GPUs of one of HOSTS."""

    def become(name):
        muster.inventory(inventory(HOSTS[name]))
        return muster

    return become


@pytest.fixture
def four(host):
    return host("4x40")


def plan(muster, *words, **variables):
    """The plan as a program reads it, fitting or refused."""
    answer = muster("plan", *map(str, words), "--json", **variables)
    assert answer.returncode in (0, 3), answer.stderr
    told = json.loads(answer.stdout)
    assert told["fits"] == (answer.returncode == 0) == (told["refusal"] is None)
    return told


def run_as_printed(muster, command):
    """A printed command, typed into a shell in which `muster` is the built program."""
    environment = {**muster.environment, "PATH": f"{muster.program.parent}:{os.environ['PATH']}"}
    return subprocess.run(["sh", "-c", command], cwd=muster.folder, env=environment, capture_output=True, text=True,
                          timeout=60)


# ---- help ----


def test_help_names_every_option_and_the_exit_codes(muster):
    text = muster("plan", "--help").stdout
    for option in ("--train", "--infer", "--params", "--seq-len", "--batch", "--micro-batch", "--accumulation", "--new-tokens",
                   "--optimizer", "--mixed-precision", "--attention", "--sharding", "--nodes", "--device-map", "--max-memory",
                   "--cpu-memory", "--disk-memory", "--checkpointing", "--offload", "--lora", "--implementation", "--planner",
                   "--allocator", "--constants", "--plot", "--json", "--gpus-from", "--config", "--num-gpus", "--gpu-ids",
                   "--device", "--strategy", "--dtype", "--print-config"):
        assert f"{option} " in text or f"{option}=" in text or f"{option}\n" in text, option
    assert "2 bad input, 3 refused" in text


# ---- bad input: exit 2, what was seen, what to type ----

GPT2 = str(MODELS / "gpt2")
LLAMA_70B = str(MODELS / "Llama-3.1-70B")

BAD = [
    ([], ["no model is named", "--params 7B"]),
    (["no/such/model"], ["no/such/model", "config.json"]),
    (["missing.yaml"], ["missing.yaml", "check the path"]),
    ([GPT2, str(MODELS / "gpt2-xl")], ["gpt2-xl", "one model"]),
    ([GPT2, "--params", "7B"], ["--params", "keep one"]),
    (["--params", "seven"], ["seven", "70B"]),
    (["--params", "-7B"], ["-7B", "70B"]),
    (["--params", "5"], ["5 parameters", "1M to 10T"]),
    ([GPT2, "--train", "--infer"], ["--train and --infer", "keep one"]),
    ([GPT2, "--dtype", "float13"], ["float13", "bfloat16", "int4"]),
    ([GPT2, "--seq-len", "-5"], ["--seq-len", "-5", "at least 1"]),
    ([GPT2, "--seq-len", "long"], ["--seq-len", "long", "whole number"]),
    ([GPT2, "--batch", "0"], ["--batch", "is 0", "at least 1"]),
    ([GPT2, "--new-tokens", "-1"], ["--new-tokens", "-1", "at least 1"]),
    ([GPT2, "--nodes", "0"], ["--nodes", "is 0", "at least 1"]),
    ([GPT2, "--max-memory", "nonsense"], ["nonsense", "0=10GB"]),
    ([GPT2, "--max-memory", "0=ten"], ["ten", "20GiB"]),
    ([GPT2, "--max-memory", "0=-5GB"], ["-5GB", "20GiB"]),
    ([GPT2, "--max-memory", "x=5GB"], ['"x"', "cpu and disk"]),
    ([GPT2, "--max-memory", "9=5GB"], ["GPU 9", "--gpu-ids"]),
    ([GPT2, "--cpu-memory", "lots"], ["--cpu-memory", "lots", "20GiB"]),
    ([GPT2, "--disk-memory", "-3GB"], ["--disk-memory", "-3GB", "20GiB"]),
    ([GPT2, "--gpu-ids", "4"], ["4", "0, 1, 2, 3", "muster gpus"]),
    ([GPT2, "--gpu-ids", "1", "7", "9"], ["7", "9", "0, 1, 2, 3"]),
    ([GPT2, "--gpu-ids", "0,0"], ["GPU 0 twice", "once"]),
    ([GPT2, "--num-gpus", "0"], ["--num-gpus", "at least 1"]),
    ([GPT2, "--strategy", "fast"], ["fast", "fsdp"]),
    ([GPT2, "--train", "--strategy", "single"], ["single", "4 GPUs", "--num-gpus 1"]),
    ([GPT2, "--train", "--strategy", "deepspeed"], ["deepspeed", "--strategy fsdp"]),
    ([str(MODELS / "Qwen2.5-7B"), "--strategy", "tensor", "--num-gpus", "3"], ["3 GPUs", "4 key-value heads", "--num-gpus 2"]),
    ([GPT2, "--train", "--device-map", "auto"], ["--device-map", "training", "--infer"]),
    ([GPT2, "--train", "model.device_map=balanced"], ["device map", "--strategy fsdp"]),
    ([GPT2, "--train", "--new-tokens", "5"], ["--new-tokens", "training"]),
    ([GPT2, "--train", "--batch", "7"], ["7 sequences", "4 ranks", "--batch 8"]),
    ([GPT2, "--train", "--batch", "32", "--micro-batch", "3"], ["3 does not divide", "8 sequences", "--batch 36"]),
    ([GPT2, "--train", "--batch", "32", "--micro-batch", "2", "--accumulation", "3"], ["32", "2 sequences × 3 passes × 4 ranks"]),
    ([GPT2, "--train", "--lora", "0"], ["--lora", "is 0", "at least 1"]),
    ([GPT2, "--infer", "--micro-batch", "2"], ["--micro-batch", "inference", "--train"]),
    ([GPT2, "--infer", "--accumulation", "2"], ["--accumulation", "inference", "--train"]),
    ([GPT2, "--infer", "--optimizer", "sgd"], ["--optimizer", "inference", "--train"]),
    ([GPT2, "--infer", "--mixed-precision", "no"], ["--mixed-precision", "inference", "--train"]),
    ([GPT2, "--checkpointing"], ["--checkpointing", "inference", "--train"]),
    ([GPT2, "--offload"], ["--offload", "inference", "--train"]),
    ([GPT2, "--lora", "8"], ["--lora", "inference", "--train"]),
    ([GPT2, "--train", "--optimizer", "lion"], ["--optimizer", "lion", "adamw_8bit"]),
    ([GPT2, "--attention", "magic"], ["--attention", "magic", "sdpa"]),
    ([GPT2, "--train", "--sharding", "some"], ["--sharding", "some", "full_shard"]),
    ([GPT2, "--device-map", "{transformer.wte: 9}"], ["transformer.wte", "no place 9", "0, 1, 2, 3", "lm_head"]),
    ([GPT2, "--device-map", "7"], ["no place 7", "0, 1, 2, 3"]),
    ([GPT2, "--planner", "best"], ["best", "compat"]),
    ([GPT2, "--implementation", "vllm"], ["vllm", "transformers, muster"]),
    ([GPT2, "--allocator", "fast"], ["fast", "expandable"]),
    ([GPT2, "--constants", "nowhere.yaml"], ["nowhere.yaml", "check the path"]),
    ([GPT2, "--gpus-from", "nowhere.yaml"], ["nowhere.yaml", "check the path"]),
    ([GPT2, "traning.batch_size=3"], ["traning.batch_size", "training.batch_size"]),
    ([GPT2, "--seq-len", "512", "generation.sequence_length=256"], ["sequence_length", "second time", "--seq-len"]),
    ([GPT2, "--unheard-of"], ["--unheard-of", "--help"]),
]


@pytest.mark.parametrize("words, expected", BAD, ids=[" ".join(words).replace(str(MODELS) + "/", "") for words, _ in BAD])
def test_bad_input_says_what_was_seen_and_what_to_type(four, words, expected):
    answer = four("plan", *words)
    assert answer.returncode == 2, answer.stdout + answer.stderr
    assert answer.stdout == ""
    for part in expected:
        assert part in answer.stderr, answer.stderr


def test_more_gpus_than_there_are_is_a_refusal(four):
    answer = four("plan", GPT2, "--num-gpus", "5")
    assert answer.returncode == 3
    assert "5 GPUs asked for, 4 available" in answer.stderr


# ---- what is printed ----


def test_a_plan_that_fits_shows_every_device_and_says_so(four):
    answer = four("plan", LLAMA_70B)
    assert answer.returncode == 0 and answer.stderr == ""
    assert answer.stdout.splitlines()[0].startswith("Llama-3.1-70B, 70.6B parameters, inference in bfloat16")
    for number in range(4):
        assert f"GPU {number} " in answer.stdout
    assert answer.stdout.rstrip().endswith("\nfits")


def test_a_refusal_shows_the_table_the_shortfall_and_what_to_try(host):
    answer = host("2x24")("plan", str(MODELS / "Llama-3.1-8B"), "--train")
    assert answer.returncode == 3
    assert "RANK  DEVICE" in answer.stdout and "needed" in answer.stdout
    assert "does not fit: GPU " in answer.stdout and " short" in answer.stdout
    assert answer.stdout.count("try: ") >= 2
    assert "host memory" not in answer.stdout.split("does not fit")[0], "nothing is offloaded unless asked for"


def test_without_a_terminal_there_is_no_colour(four):
    for words in ([LLAMA_70B], [LLAMA_70B, "--train"]):
        assert "\x1b" not in four("plan", *words).stdout


def test_json_has_the_fields_programs_rely_on(four):
    for words in ([LLAMA_70B], [GPT2, "--train"], [LLAMA_70B, "--train"]):
        told = plan(four, *words)
        assert {"fits", "parameters", "strategy", "micro_batch", "accumulation", "ranks", "device_map", "refusal"} <= set(told)
        for rank in told["ranks"]:
            assert {"rank", "gpu", "peak_bytes", "limit_bytes", "components"} <= set(rank)
            parts = rank["components"]
            assert set(parts) == COMPONENTS
            assert sum(parts.values()) == rank["total_bytes"]
            assert sum(size for name, size in parts.items() if name not in BEYOND_THE_PEAK) == rank["peak_bytes"]
            assert rank["fits"] == (rank["total_bytes"] <= rank["limit_bytes"])
    refusal = told["refusal"]
    assert refusal["reason"] and refusal["shortfall_bytes"] > 0
    worst = max(rank["total_bytes"] - rank["limit_bytes"] for rank in told["ranks"])
    assert refusal["shortfall_bytes"] == worst
    for remedy in refusal["remedies"]:
        assert {"change", "command", "peak_bytes"} <= set(remedy)


def test_the_device_map_is_accelerates_names_and_numbers(four):
    told = plan(four, LLAMA_70B)
    assert told["strategy"] == "layer_split"
    assert told["device_map"]["model.embed_tokens"] == 0
    assert told["device_map"]["lm_head"] == 3
    assert set(told["device_map"].values()) == {0, 1, 2, 3}
    assert plan(four, GPT2, "--train")["device_map"] is None


@pytest.mark.parametrize("words", [[LLAMA_70B], [LLAMA_70B, "--train"], [GPT2, "--device", "cpu"], ["--params", "13B", "--nodes", "2"]])
def test_the_plot_is_well_formed(four, words):
    code = four("plan", *words, "--plot", "plan <&> picture.svg").returncode
    assert code in (0, 3)
    root = xml.etree.ElementTree.parse(four.folder / "plan <&> picture.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = "".join(root.itertext())
    assert ("does not fit" in texts) == (code == 3)
    width = float(root.attrib["width"])
    for shape in root.iter("{http://www.w3.org/2000/svg}rect"):
        assert 0 <= float(shape.attrib.get("x", 0)) and float(shape.attrib.get("x", 0)) + float(shape.attrib["width"]) <= width


def test_a_plot_that_cannot_be_written_is_an_error(four):
    answer = four("plan", GPT2, "--plot", "no/such/folder/plan.svg")
    assert answer.returncode == 1 and "no/such/folder/plan.svg" in answer.stderr


def test_print_config_names_the_origin_of_each_value(four):
    (four.folder / "run.yaml").write_text(f"model: {{path: {GPT2}}}\ntraining: {{sequence_length: 512}}\n")
    answer = four("plan", "run.yaml", "--print-config", "--batch", "8", "num_gpus=2", MUSTER_TRAINING_OPTIMIZER="sgd")
    assert answer.returncode == 0
    for value, origin in (("sequence_length: 512", "run.yaml:2:"), ("batch_size: 8", "--batch"), ("num_gpus: 2", "num_gpus=2"),
                          ("optimizer: sgd", "MUSTER_TRAINING_OPTIMIZER")):
        assert any(value in line and f"# {origin}" in line for line in answer.stdout.splitlines()), answer.stdout
    assert "RANK" not in answer.stdout


# ---- every way of asking ----


def test_a_runs_configuration_is_about_training_unless_told_otherwise(four):
    (four.folder / "run.yaml").write_text(f"model: {{path: {GPT2}}}\ntraining: {{batch_size: 8, sequence_length: 512}}\n"
                                          "generation: {sequence_length: 128}\n")
    told = plan(four, "run.yaml")
    assert (told["work"], told["effective_batch"], told["sequence_length"]) == ("training", 8, 512)
    told = plan(four, "run.yaml", "--infer")
    assert (told["work"], told["sequence_length"]) == ("inference", 128)
    told = plan(four, "run.yaml", "--seq-len", "256")
    assert told["sequence_length"] == 256
    assert plan(four, "--config", "run.yaml", "--train")["effective_batch"] == 8


def test_a_model_is_a_folder_a_file_or_a_size(four):
    folder, file = plan(four, GPT2), plan(four, GPT2 + "/config.json")
    assert folder["ranks"] == file["ranks"] and folder["parameters"] == 124_439_808
    assert plan(four, "--params", "1.5B")["parameters"] == 1_500_000_000


def test_an_option_and_the_setting_it_stands_for_are_the_same_question(four):
    pairs = [
        (["--train", "--seq-len", "512"], ["--train", "training.sequence_length=512"]),
        (["--train", "--micro-batch", "2", "--accumulation", "4"],
         ["--train", "per_device_train_batch_size=2", "gradient_accumulation_steps=4"]),
        (["--train", "--checkpointing", "--optimizer", "sgd"],
         ["--train", "training.gradient_checkpointing=true", "training.optimizer=sgd"]),
        (["--train", "--lora", "16"], ["--train", "model.use_lora=true", "model.lora_r=16"]),
        (["--train", "--strategy", "fsdp", "--offload"], ["--train", "distributed.strategy=fsdp", "fsdp_cpu_offload=true"]),
        (["--train", "--mixed-precision", "bf16"], ["--train", "bf16=true"]),
        (["--batch", "4", "--new-tokens", "32"], ["generation.batch_size=4", "generation.max_new_tokens=32"]),
        (["--dtype", "int8"], ["load_in_8bit=true"]),
        (["--dtype", "bfloat16"], ["torch_dtype=bfloat16"]),
        (["--max-memory", "0=10GB,1=8GiB"], ["model.max_memory={0: 10GB, 1: 8GiB}"]),
        (["--device-map", "sequential"], ["device_map=sequential"]),
        (["--gpu-ids", "1", "3"], ["gpu_list=1,3"]),
        (["--num-gpus", "2"], ["num_gpus=2"]),
        (["--attention", "eager"], ["system.attn_impl=eager"]),
        (["--nodes", "2"], ["distributed.num_nodes=2"]),
    ]
    model = str(MODELS / "Llama-3.2-1B")
    for options, settings in pairs:
        assert plan(four, model, *options) == plan(four, model, *settings), options


def test_a_setting_may_follow_any_option(four):
    told = plan(four, GPT2, "--train", "--num-gpus", "2", "training.batch_size=8", "--strategy", "ddp", "training.sequence_length=256")
    assert (told["world_size"], told["effective_batch"], told["sequence_length"]) == (2, 8, 256)
    told = plan(four, GPT2, "--gpu-ids", "1", "3", "generation.sequence_length=256")
    assert [rank["gpu"] for rank in told["ranks"]] == [1, 3] and told["sequence_length"] == 256


def test_a_typed_type_overrules_a_files_quantisation(four):
    (four.folder / "run.yaml").write_text(f"model: {{path: {GPT2}, load_in_8bit: true}}\ntraining: {{bf16: true}}\n")
    assert plan(four, "run.yaml", "--infer")["dtype"] == "int8"
    assert plan(four, "run.yaml", "--infer", "--dtype", "int4")["dtype"] == "int4"
    assert plan(four, "run.yaml", "--infer", "--dtype", "bfloat16")["dtype"] == "bfloat16"
    told = plan(four, "run.yaml", "--train", "--dtype", "bfloat16", "--mixed-precision", "no")
    assert (told["dtype"], told["mixed_precision"]) == ("bfloat16", False)


def test_batch_passes_and_ranks_need_no_number_of_gpus(four):
    told = plan(four, GPT2, "--train", "--batch", "32", "--micro-batch", "2", "--accumulation", "4")
    assert (told["micro_batch"], told["accumulation"], told["effective_batch"]) == (2, 4, 32)


def test_every_choice_of_planner_implementation_and_allocator_is_answered(four):
    for option, words in (("--planner", ("optimal", "compat", "transformers")), ("--implementation", ("transformers", "muster")),
                          ("--allocator", ("auto", "default", "expandable"))):
        for word in words:
            told = plan(four, LLAMA_70B, option, word)
            assert told["ranks"], (option, word)
    slack = {word: sum(rank["components"]["allocator_slack"] for rank in plan(four, LLAMA_70B, "--allocator", word)["ranks"])
             for word in ("default", "expandable")}
    assert slack["expandable"] < slack["default"]
    expanding = plan(four, LLAMA_70B, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    assert sum(rank["components"]["allocator_slack"] for rank in expanding["ranks"]) == slack["expandable"]


def test_measured_constants_replace_the_built_in_ones(four):
    (four.folder / "constants.yaml").write_text("cuda_context: 1000000000\n")
    told = plan(four, GPT2, "--constants", "constants.yaml")
    assert {rank["components"]["cuda_context"] for rank in told["ranks"]} == {1_000_000_000}


def test_host_memory_and_disk_hold_modules_only_where_that_is_allowed(host):
    muster = host("1x24")
    assert not plan(muster, LLAMA_70B)["fits"]
    told = plan(muster, LLAMA_70B, "--cpu-memory", "200GiB")
    assert told["fits"] and told["off_gpu_bytes"]["cpu"] > 100 << 30 and "cpu" in told["device_map"].values()
    told = plan(muster, LLAMA_70B, "--cpu-memory", "50GiB", "--disk-memory", "200GiB")
    assert told["fits"] and 0 < told["off_gpu_bytes"]["cpu"] <= 50 << 30 and told["off_gpu_bytes"]["disk"] > 0


def test_a_host_without_gpus_is_no_error(muster):
    muster.inventory("gpus: [{count: 2, memory_total: 24GiB}]\n")
    mask = {"CUDA_VISIBLE_DEVICES": ""}
    told = plan(muster, GPT2, **mask)
    assert told["fits"] and [rank["gpu"] for rank in told["ranks"]] == [None] and told["device_map"] == {"": "cpu"}
    assert told["ranks"][0]["limit_bytes"] is None, "of another machine's memory nothing is known"
    told = plan(muster, GPT2, "--train", "--batch", "4", **mask)
    assert told["fits"] and told["strategy"] == "single" and told["effective_batch"] == 4
    text = muster("plan", GPT2, **mask).stdout
    assert "not known" in text and text.rstrip().endswith("\nfits")
    assert plan(muster, GPT2, "--device", "cpu")["ranks"][0]["gpu"] is None


def test_sequences_beyond_the_model_are_pointed_out(four):
    assert "longer than the 1024 that this model was made for" in four("plan", GPT2, "--seq-len", "2048").stdout
    assert "longer than" not in four("plan", GPT2, "--seq-len", "1024").stdout


# ---- remedies ----


def is_reasonable(question):
    """Training 70B parameters and more on GPUs of 24 GiB or less has few ways out."""
    size = question.model or question.size
    large = any(part in size for part in ("70B", "180B", "405B"))
    limits = question.settings.get("model.max_memory", {})
    small = min([*question.gpus, *(int(text[:-3]) for device, text in limits.items() if device.isdigit())]) <= 24
    return not (question.training and large and small)


def test_every_printed_remedy_fits_when_run_as_printed(muster):
    """A seeded sample of refused questions, of every kind."""
    refused, commands, seen = 0, 0, {"training": 0, "inference": 0, "file": 0, "limits": 0, **dict.fromkeys(HOSTS, 0)}
    for seed in range(130):
        question = Question(seed)
        muster.inventory(inventory(question.gpus))
        words = question.arguments(MODELS, muster.folder)
        answer = muster("plan", *words, "--json")
        asked = f"seed {seed}, {question.host}: muster plan {shlex.join(words)}"
        assert answer.returncode in (0, 2, 3), asked + answer.stderr
        if answer.returncode == 2:  # tensor parallelism over GPUs that do not divide the model
            assert "do not divide" in answer.stderr, asked + answer.stderr
        if answer.returncode != 3:
            continue
        refused += 1
        told = json.loads(answer.stdout)
        seen[told["work"]] += 1
        seen[question.host] += 1
        seen["file"] += "run.yaml" in words
        seen["limits"] += "model.max_memory" in question.settings
        remedies = told["refusal"]["remedies"]
        if is_reasonable(question):
            assert len(remedies) >= 2, asked
        for remedy in remedies:
            commands += 1
            again = run_as_printed(muster, remedy["command"] + " --json")
            context = f"{asked}\n{remedy['command']}\n{again.stderr}"
            assert again.returncode == 0, context
            then = json.loads(again.stdout)
            assert then["fits"], context
            assert max(rank["peak_bytes"] for rank in then["ranks"]) == remedy["peak_bytes"], context
    assert refused >= 60 and commands >= 120
    assert min(seen.values()) >= 5, seen


def test_the_printed_text_names_the_same_remedies(host):
    muster = host("24-24-80-80")
    words = ["plan", str(MODELS / "Qwen3-32B"), "--train", "max_seq_length=4096"]
    told = json.loads(muster(*words, "--json").stdout)
    lines = muster(*words).stdout.splitlines()
    printed = [lines[number + 1].strip() for number, line in enumerate(lines) if line.startswith("try: ")]
    assert printed == [remedy["command"] for remedy in told["refusal"]["remedies"]] and len(printed) >= 2
    for command in printed:
        answer = run_as_printed(muster, command)
        assert answer.returncode == 0 and answer.stdout.rstrip().endswith("\nfits"), answer.stdout + answer.stderr


def test_a_remedy_repeats_what_was_typed_and_changes_the_rest(host):
    muster = host("1x24")
    folder = muster.folder / "a model's folder"
    folder.mkdir()
    (folder / "config.json").write_text((MODELS / "Llama-3.1-8B/config.json").read_text())
    told = plan(muster, "a model's folder", "--train", "max_seq_length=2048", "torch_dtype=float32", "distributed.strategy=single")
    assert len(told["refusal"]["remedies"]) >= 2
    for remedy in told["refusal"]["remedies"]:
        words = shlex.split(remedy["command"])
        assert words[:2] == ["muster", "plan"] and "a model's folder" in words and "--train" in words
        assert ("--seq-len" in words) != ("max_seq_length=2048" in words)
        assert ("--dtype" in words) != ("torch_dtype=float32" in words)
        assert ("--strategy" in words) != ("distributed.strategy=single" in words)
        assert run_as_printed(muster, remedy["command"]).returncode == 0, remedy["command"]


def test_spare_gpus_and_higher_limits_are_remedies(host):
    muster = host("4x40")
    told = plan(muster, LLAMA_70B, "--num-gpus", "2")
    assert any("--gpu-ids 0,1,2,3" in remedy["command"] for remedy in told["refusal"]["remedies"])
    told = plan(muster, LLAMA_70B, "--max-memory", "0=20GiB,1=20GiB,2=20GiB,3=20GiB")
    assert any("--max-memory 0=40960MiB" in remedy["command"] for remedy in told["refusal"]["remedies"])


def test_where_the_smallest_gpu_decides_the_roomier_ones_are_a_remedy(host):
    told = plan(host("24-24-80-80"), str(MODELS / "Qwen2-1.5B"), "--train", "--strategy", "ddp")
    assert not told["fits"]
    assert any("--gpu-ids 2,3" in remedy["command"] for remedy in told["refusal"]["remedies"])


def test_sizes_beyond_counting_are_refused_in_words(muster):
    muster.inventory(inventory([40, 40]))
    for options, words in ((["--seq-len", "1000000000"], "more than can be counted"),
                           (["--batch", "9223372036854775807"], "more than can be counted"),
                           (["--train", "--nodes", "1000000000"], "1000000000 hosts"),
                           (["--train", "--lora", "4611686018427387904"], "accepted: at least 1, at most 65536"),
                           (["--train", "--accumulation", "4611686018427387904"], "passes per optimizer step")):
        answer = muster("plan", MODELS / "Llama-3.1-8B", *options)
        assert answer.returncode == 2, options
        assert words in answer.stderr, answer.stderr


def test_a_model_is_named_once(muster):
    muster.inventory(inventory([40]))
    answer = muster("plan", "--model", "one", "two")
    assert answer.returncode == 2
    assert "--model one and two are both given" in answer.stderr
    named = muster("plan", "-m", MODELS / "Llama-3.1-8B", "--json")
    assert named.stdout == muster("plan", MODELS / "Llama-3.1-8B", "--json").stdout != ""
