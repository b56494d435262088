"""verl's formulas of PPO, loaded from its file alone: what else verl needs is not installed."""

import functools
import importlib.util
import sys
import types
from pathlib import Path

APART = Path(sys.prefix) / "apart"  # scripts/test-requirements-apart.txt


def stub(name, **members):
    module = types.ModuleType(name)
    vars(module).update(members)
    module.__path__ = []
    return module


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def core_algos():
    """verl.trainer.ppo.core_algos, with the helpers that it takes means by."""
    folder = APART / "verl"
    nothing = types.SimpleNamespace()
    stubs = {
        "omegaconf": stub("omegaconf", DictConfig=dict),
        "tensordict": stub("tensordict", TensorDict=dict),
        "verl": stub("verl"),
        "verl.utils": stub("verl.utils", as_torch_index=None, group_mean_std=None),
        "verl.utils.device": stub("verl.utils.device", get_device_name=lambda: "cpu", get_torch_device=lambda: nothing),
        "verl.utils.import_utils": stub("verl.utils.import_utils", deprecated=lambda *words: lambda function: function),
        "verl.trainer": stub("verl.trainer"),
        "verl.trainer.config": stub("verl.trainer.config", AlgoConfig=dict),
        "verl.workers": stub("verl.workers"),
        "verl.workers.config": stub("verl.workers.config", ActorConfig=dict),
    }
    before = {name: sys.modules.get(name) for name in stubs}
    sys.modules.update(stubs)
    try:
        functional = load(folder / "utils/torch_functional.py", "verl.utils.torch_functional")
        sys.modules["verl.utils"].torch_functional = functional
        sys.modules["verl.utils.torch_functional"] = functional
        return load(folder / "trainer/ppo/core_algos.py", "verl_core_algos")
    finally:
        sys.modules.pop("verl.utils.torch_functional", None)
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
