"""accelerate's and transformers' own planners, asked in one way."""

import contextlib
import logging
import warnings
from typing import Optional
from unittest import mock

import accelerate.utils.modeling as accelerate_planner
import transformers.integrations.accelerate as transformers_planner
from accelerate.utils import CustomDtype
import torch
from torch import nn
from transformers import BitsAndBytesConfig
from transformers.quantizers import HfQuantizer
from transformers.quantizers.quantizer_bnb_4bit import Bnb4BitHfQuantizer

DTYPES = {None: None, 2: torch.bfloat16, 1: torch.int8, 0.5: CustomDtype.INT4}

for name in ("accelerate.utils.modeling", "transformers.integrations.accelerate"):
    logging.getLogger(name).setLevel(logging.ERROR)

find_tied_parameters = accelerate_planner.find_tied_parameters


def in_order_of_definition(model: nn.Module) -> list[list[str]]:
    """accelerate's groups of tied names. It goes through a set, so that their order varies from run to run; here it does not."""
    position = {name: i for i, (name, _) in enumerate(model.named_parameters(remove_duplicate=False))}
    return sorted(find_tied_parameters(model), key=lambda group: min(position[name] for name in group))


@contextlib.contextmanager
def free_memory(budgets: dict):
    """A machine on which so much is free, for planners that were given no limits."""
    read_limits = accelerate_planner.get_max_memory

    def limits(max_memory: Optional[dict] = None) -> dict:
        return read_limits(dict(budgets) if max_memory is None else max_memory)  # in the order of the devices

    with (
        mock.patch.object(accelerate_planner, "get_max_memory", limits),
        mock.patch.object(transformers_planner, "accelerate_max_memory", limits),
    ):
        yield


def accelerate_plan(
    model: nn.Module,
    budgets: dict,
    mode: str,
    element_bytes=None,
    special_elements: Optional[dict] = None,
    whole_classes: Optional[list] = None,
    clean: bool = True,
    fallback_allocation: bool = False,
    limits_given: bool = True,
) -> dict:
    arguments = {
        "no_split_module_classes": whole_classes,
        "dtype": DTYPES[element_bytes],
        "special_dtypes": {name: DTYPES[size] for name, size in (special_elements or {}).items()},
    }
    given = dict(budgets) if limits_given else None
    with (
        free_memory(budgets),
        mock.patch.object(accelerate_planner, "find_tied_parameters", in_order_of_definition),
        warnings.catch_warnings(action="ignore"),
    ):
        if mode == "sequential":
            budgets = accelerate_planner.get_max_memory(given)
        else:
            budgets = accelerate_planner.get_balanced_memory(
                model, max_memory=given, low_zero=mode == "balanced_low_0", **arguments
            )
        device_map = accelerate_planner.infer_auto_device_map(
            model,
            max_memory=dict(budgets),
            clean_result=clean,
            fallback_allocation=fallback_allocation,
            **arguments,
        )
    return {"budgets": budgets, "map": dict(device_map)}


class Packing(HfQuantizer):
    """bitsandbytes' quantisers as the planner asks them, for a machine without bitsandbytes: which weights they would
    pack is told by their names."""

    def __init__(self, elements: dict[str, float]):
        self.elements = elements
        self.quantization_config = BitsAndBytesConfig(llm_int8_enable_fp32_cpu_offload=True)

    def param_element_size(self, model, param_name, param):
        return self.elements.get(param_name, param.element_size())

    adjust_max_memory = Bnb4BitHfQuantizer.adjust_max_memory

    def validate_environment(self, *args, **kwargs):
        pass

    def _process_model_before_weight_loading(self, model, **kwargs):
        pass

    def _process_model_after_weight_loading(self, model, **kwargs):
        pass

    def is_serializable(self):
        return True

    is_trainable = True


def transformers_plan(
    model: nn.Module, budgets: dict, mode: str, limits_given: bool = True, special_elements: Optional[dict] = None
) -> dict:
    given = dict(budgets) if limits_given else None
    packing = Packing(special_elements) if special_elements else None
    with free_memory(budgets), warnings.catch_warnings(action="ignore"):
        if mode == "sequential":
            inferred = transformers_planner.get_max_memory(dict(given) if given is not None else None)
        else:
            inferred = transformers_planner.get_balanced_memory(
                model,
                max_memory=dict(given) if given is not None else None,
                no_split_module_classes=model._no_split_modules,
                hf_quantizer=packing,
                low_zero=mode == "balanced_low_0",
            )
        if packing is not None:
            inferred = packing.adjust_max_memory(inferred)
        device_map = transformers_planner._get_device_map(model, mode, given, packing)
    return {"budgets": inferred, "map": dict(device_map)}
