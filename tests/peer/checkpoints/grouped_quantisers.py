"""gptqmodel's and AutoAWQ's own packing and unpacking, which are plain torch. Both packages want a GPU's worth of other
packages as soon as they are imported, so their modules are loaded one by one, without what the packages run first."""

import importlib
import re
import sys
import types
from pathlib import Path

APART = Path(sys.prefix) / "apart"  # scripts/test-requirements-apart.txt
PACKAGES = ["gptqmodel", "gptqmodel.models", "gptqmodel.quantization", "awq", "awq.utils", "awq.modules",
            "awq.modules.linear"]  # fmt: skip


def prepare():
    for module in PACKAGES:
        bare = types.ModuleType(module)
        bare.__path__ = [str(APART / module.replace(".", "/"))]
        sys.modules[module] = bare
    sys.modules["gptqmodel"].DEBUG_ON = False
    sys.modules.setdefault("pcre", re)  # gptqmodel's faster regular expressions, which packing has no use for
    config = importlib.import_module("gptqmodel.quantization.config")
    for name in ["FORMAT", "METHOD"]:
        setattr(sys.modules["gptqmodel.quantization"], name, getattr(config, name))


prepare()
GptqLinear = importlib.import_module("gptqmodel.nn_modules.qlinear.torch").TorchLinear
gptq_files = importlib.import_module("gptqmodel.utils.model_dequant")
AwqGemmLinear = importlib.import_module("awq.modules.linear.gemm").WQLinear_GEMM
AwqGemvLinear = importlib.import_module("awq.modules.linear.gemv").WQLinear_GEMV
dequantize_gemm = importlib.import_module("awq.utils.packing_utils").dequantize_gemm
# Other packages of the process, which ask for these by name, must not find them.
for name in list(sys.modules):
    if name.split(".")[0] in ("gptqmodel", "awq", "pcre"):
        del sys.modules[name]
