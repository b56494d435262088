"""PEFT's adapters over transformers' models, for tests to hold muster's against."""

import model_cases
import peft
import safetensors.torch
import torch


# Sizes of which no row is a whole number of runs of 64. Nor a multiple of 16: there bitsandbytes' own kernel takes the
# scales of other runs, on CPUs with AVX-512.
CROSSING = dict(hidden_size=40, intermediate_size=88)


def trained_parameters(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def adapted(model, seed=5, **options):
    """PEFT's model over a base, with adapters that change something from the first."""
    return adapted_over(model_cases.load(model, torch.float32), seed, **options)


def adapted_over(base, seed=5, **options):
    torch.manual_seed(seed)
    settings = dict(r=4, lora_alpha=12, target_modules="all-linear", lora_dropout=0.0, init_lora_weights=False,
                    task_type="CAUSAL_LM") | options
    oracle = peft.get_peft_model(base, peft.LoraConfig(**settings))
    with torch.no_grad():
        for name, parameter in oracle.named_parameters():
            if "lora_B" in name:
                parameter.mul_(0.3)
    return oracle


def tensors_of(folder):
    return safetensors.torch.load_file(folder / "adapter_model.safetensors")


def assert_adapters_equal(folder, oracle, bound):
    theirs = peft.get_peft_model_state_dict(oracle)
    ours = tensors_of(folder)
    assert ours.keys() == theirs.keys()
    for name in theirs:
        assert (ours[name] - theirs[name]).abs().max() <= bound, name
