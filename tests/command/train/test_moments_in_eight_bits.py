"""training.optimizer=adamw_8bit: it learns as plain moments do, gives the same bits in every layout, and is resumed."""

import json
import subprocess
import time

import bitsandbytes
import model_cases
import numpy
import pytest
import safetensors.torch
import torch
import torch_training
import train_runs
from bitsandbytes.functional import create_dynamic_map

# Wide enough for moments in 8 bits of most matrices; those of keys and values are too small.
WIDE = model_cases.SMALL | dict(hidden_size=64, intermediate_size=128, tie_word_embeddings=False)
CODED = {"self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "lm_head"}
STEPS = dict(max_steps=8, batch_size=12, learning_rate=2e-3, lr_scheduler="cosine", warmup_steps=2, weight_decay=0.01)
CODED_ADAMW = dict(optimizer="adamw_8bit")
EXACT = STEPS | CODED_ADAMW | dict(deterministic="true")
NARROW = {"model.dtype": "bfloat16", "mixed_precision": "no"}
LORA = {"model.use_lora": "true", "model.lora_r": 64, "model.lora_alpha": 64, "model.lora_dropout": 0}


def sharded(how, group=None):
    words = {"distributed.strategy": "fsdp", "distributed.fsdp_sharding_strategy": how}
    return words | ({"distributed.fsdp_group_size": group} if group else {})


DDP = {"distributed.strategy": "ddp"}
OFFLOAD = {"distributed.fsdp_cpu_offload": "true"}


@pytest.fixture(scope="module")
def rows(classroom):
    return classroom.data(train_runs.pairs(30))


@pytest.fixture(scope="module")
def model(classroom):
    folder = classroom.folder / "models" / "wide"
    model_cases.make_checkpoint(model_cases.Case("wide", "llama", WIDE), folder)
    classroom.add_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def alone(classroom, model, rows):
    return classroom.train(model, rows, save_steps=5, **EXACT)


def pieces_of(run, step):
    """What a checkpoint keeps, by state and tensor."""
    found = {}
    for file in (run.folder / f"checkpoints/step-{step}").glob("*.state"):
        for key, numbers in safetensors.torch.load_file(file).items():
            state, place = key.split("/", 1)
            name, first = place.rsplit("@", 1)
            found.setdefault((state, name), {})[int(first)] = numbers
    return {key: torch.cat([parts[first] for first in sorted(parts)]) for key, parts in found.items()}


def test_it_learns_as_plain_moments_do(classroom, model, rows):
    settings = STEPS | dict(max_steps=60, learning_rate=1e-3)
    plain, coded = (classroom.train(model, rows, 2, **settings, optimizer=kind) for kind in ("adamw", "adamw_8bit"))
    assert coded.losses()[-1] < 0.5 * coded.losses()[0]
    assert coded.column() != plain.column()
    assert numpy.abs(coded.losses() / plain.losses() - 1).max() < 0.03


def test_it_learns_as_transformers_model_does_under_the_library(classroom, model, rows):
    """With embeddings left in 32 bits, as transformers' trainer leaves them."""
    steps = 30
    run = classroom.train(model, rows, max_steps=steps, batch_size=12, learning_rate=1e-3, lr_scheduler="cosine",
                          warmup_steps=3, weight_decay=0.01, **CODED_ADAMW)
    oracle = model_cases.load(model, torch.float32)
    bitsandbytes.optim.GlobalOptimManager.get_instance().register_module_override(
        oracle.get_input_embeddings(), "weight", {"optim_bits": 32})
    optimizer = bitsandbytes.optim.AdamW8bit(oracle.parameters(), lr=1e-3, weight_decay=0.01)
    lessons = torch_training.lessons_of(classroom.samples(model, rows, steps=steps, batch_size=12))
    losses, _ = torch_training.train(oracle, lessons, optimizer, torch_training.cosine(optimizer, 3, steps))
    coded = {name.removesuffix(".weight") for name, parameter in oracle.named_parameters()
             if optimizer.state[parameter]["state1"].dtype == torch.uint8}
    assert {name.split(".", 3)[-1] for name in coded} == CODED
    numpy.testing.assert_allclose(run.losses(), losses, rtol=0.01)
    numpy.testing.assert_allclose(run.losses()[:2], losses[:2], rtol=1e-5)


def test_checkpoints_keep_codes_and_scales_that_any_reader_of_safetensors_sees(classroom, model, rows, alone):
    manifest = json.loads((alone.folder / "checkpoints/step-5/manifest.json").read_text())
    states = {tensor["name"]: tensor["states"] for tensor in manifest["tensors"]}
    assert manifest["version"] == 3 and manifest["state"]["optimizer"] == "adamw_8bit"
    found = pieces_of(alone, 5)
    plain = pieces_of(classroom.train(model, rows, save_steps=5, **EXACT | dict(optimizer="adamw")), 5)
    for name, kept in states.items():
        count = found["parameter", name].numel()
        coded = name.removesuffix(".weight").split(".", 3)[-1] in CODED
        assert kept == (["parameter", "first_moment_codes", "first_moment_scales", "second_moment_codes",
                         "second_moment_scales"] if coded else ["parameter", "first_moment", "second_moment"]), name
        if not coded:
            continue
        for moment, signed in (("first_moment", True), ("second_moment", False)):
            codes, scales = found[f"{moment}_codes", name], found[f"{moment}_scales", name]
            assert codes.dtype == torch.uint8 and codes.numel() == count
            assert scales.dtype == torch.float32 and scales.numel() == -(-count // 256)
            spread = scales.repeat_interleave(256)[:count]
            values = create_dynamic_map(signed=signed)[codes.long()] * spread
            # Near what plain moments are after as many steps: the run went a little another way.
            assert ((values - plain[moment, name]).abs() <= 0.1 * spread + 1e-12).all(), name


LAYOUTS = {
    "ddp on 2": (2, DDP),
    "ddp on 3": (3, DDP),
    "no_shard on 2": (2, sharded("no_shard")),
    "full_shard on 1, offloaded": (1, sharded("full_shard") | OFFLOAD),
    "full_shard on 2": (2, sharded("full_shard")),
    "full_shard on 3, offloaded": (3, sharded("full_shard") | OFFLOAD),
    "full_shard on 4": (4, sharded("full_shard")),
    "shard_grad_op on 3": (3, sharded("shard_grad_op")),
    "hybrid_shard 2 x 2": (4, sharded("hybrid_shard", 2)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_bits(classroom, model, rows, alone, layout):
    ranks, words = LAYOUTS[layout]
    other = classroom.train(model, rows, ranks, micro_batch_size=2 if 12 // ranks % 2 == 0 else 1, **EXACT | words)
    train_runs.assert_same_bits(alone, other)
    assert alone.column("gradient_norm") == other.column("gradient_norm")


GOING_ON = [(1, {}), (2, DDP), (2, sharded("shard_grad_op")), (3, sharded("full_shard") | OFFLOAD)]


@pytest.mark.parametrize("ranks, words", GOING_ON)
def test_what_four_shards_saved_any_layout_goes_on_from(classroom, model, rows, alone, ranks, words):
    begun = classroom.train(model, rows, 4, save_steps=5, **EXACT | sharded("full_shard"))
    saved, wanted = pieces_of(begun, 5), pieces_of(alone, 5)
    assert saved.keys() == wanted.keys()
    for key, numbers in saved.items():
        assert torch.equal(numbers.view(torch.uint8), wanted[key].view(torch.uint8)), key
    checkpoint = {"experiment.resume": begun.folder / "checkpoints" / "step-5"}
    gone_on = classroom.start(model, rows, ranks, save_steps=5, **EXACT | words | checkpoint)
    assert gone_on.code == 0 and "resuming after step 5" in gone_on.text, gone_on.text
    train_runs.assert_same_bits(alone, begun)


def test_a_run_that_was_killed_goes_on_in_another_layout(classroom, model, rows, tmp_path):
    settings = EXACT | dict(max_steps=60, save_steps=5)
    whole = classroom.train(model, rows, **settings)
    output = tmp_path / "killed"
    words = [f"data.path={rows}", "distributed.ranks=3", f"experiment.output={output}"]
    words += [f"{name if '.' in name else 'training.' + name}={value}" for name, value in
              (settings | sharded("full_shard")).items()]
    program = subprocess.Popen([str(train_runs.PROGRAM), "train", "-m", str(model), "--device", "cpu", *words],
                               env=classroom.environment, cwd=classroom.folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(output.glob("*/checkpoints/step-*/manifest.json")) and program.poll() is None:
        time.sleep(0.01)
    program.kill()
    program.wait()
    (folder,) = output.iterdir()
    done = classroom.start(model, rows, 2, **settings | DDP | {"experiment.resume": folder})
    assert done.code == 0, done.text
    train_runs.assert_same_bits(whole, train_runs.Run(0, done.text, folder))


@pytest.mark.parametrize("saved, resumed", [("adamw_8bit", "adamw"), ("adamw", "adamw_8bit")])
def test_a_checkpoint_of_another_optimizer_is_refused(classroom, model, rows, saved, resumed):
    settings = STEPS | dict(max_steps=3)
    begun = classroom.train(model, rows, optimizer=saved, **settings)
    refused = classroom.start(model, rows, optimizer=resumed, **settings, **{"experiment.resume": begun.folder})
    assert refused.code == 2
    assert "training.optimizer" in refused.text and saved in refused.text and resumed in refused.text, refused.text


def test_adapters_with_moments_in_eight_bits_learn_and_keep_their_bits(classroom, model, rows):
    settings = EXACT | LORA | dict(learning_rate=5e-3)
    runs = [classroom.train(model, rows, ranks, micro_batch_size=2, **settings | words)
            for ranks, words in ((1, {}), (2, DDP), (3, sharded("full_shard")))]
    first, *others = runs
    ours = safetensors.torch.load_file(first.folder / "model/adapter_model.safetensors")
    for other in others:
        assert first.column() == other.column()
        theirs = safetensors.torch.load_file(other.folder / "model/adapter_model.safetensors")
        assert all(torch.equal(ours[name], theirs[name]) for name in ours) and ours.keys() == theirs.keys()
    plain = classroom.train(model, rows, micro_batch_size=2, **settings | dict(optimizer="adamw"))
    assert first.column() != plain.column()
    assert numpy.abs(first.losses() / plain.losses() - 1).max() < 0.02


def test_a_state_of_bfloat16_alone_has_coded_moments_beside_it(classroom, model, rows):
    settings = STEPS | CODED_ADAMW | NARROW | dict(micro_batch_size=6, max_steps=20, save_steps=5)
    whole, parted = (classroom.train(model, rows, 2, **settings | words) for words in (DDP, sharded("full_shard")))
    train_runs.assert_same_bits(whole, parted)
    checkpoint = {"experiment.resume": parted.folder / "checkpoints" / "step-5"}
    assert classroom.start(model, rows, 2, **settings | DDP | checkpoint).code == 0
    train_runs.assert_same_bits(whole, parted)
    plain = classroom.train(model, rows, 2, **settings | dict(optimizer="adamw"))
    assert numpy.abs(whole.losses() / plain.losses() - 1).max() < 0.03


@pytest.mark.parametrize("kind, of_coded", [("adamw", 8), ("adamw_8bit", 2 + 8 / 256)])
def test_the_plan_counts_two_bytes_and_two_scales_for_each_block(classroom, model, tmp_path, kind, of_coded):
    (tmp_path / "gpus.yaml").write_text("gpus:\n  - {name: GPU, memory_total: 8GiB, memory_used: 0}\n")
    command = [str(train_runs.PROGRAM), "plan", str(model), "--train", "--implementation", "muster", "--json"]
    command += ["--optimizer", kind, "--gpus-from", str(tmp_path / "gpus.yaml")]
    done = subprocess.run(command, env=classroom.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wanted = 0
    for name, tensor in train_runs.read_tensors(model).items():
        coded = name.removesuffix(".weight").split(".", 3)[-1] in CODED
        wanted += (of_coded if coded else 8) * tensor.numel()
    assert abs(json.loads(done.stdout)["ranks"][0]["components"]["optimizer"] - wanted) <= 8
