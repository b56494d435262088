import importlib.metadata
import inspect
import re
import typing
from pathlib import Path

import pytest
from machine import python_output

import muster
from muster import _native, collectives, device_maps, distributed, multi_gpu, process_group, ranks, training

MODULES = [collectives, device_maps, distributed, multi_gpu, process_group, ranks, training]
FUNCTIONS = [getattr(muster, name) for name in muster.__all__ if inspect.isfunction(getattr(muster, name))]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_public_function_has_types_and_a_contract(function):
    hints = typing.get_type_hints(inspect.unwrap(function))
    assert "return" in hints
    assert set(inspect.signature(function).parameters) == set(hints) - {"return"}
    assert function.__doc__


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_name_is_in_the_list_of_its_module_and_of_the_package(module):
    assert set(module.__all__) <= set(muster.__all__)
    public = {name: value for name, value in vars(module).items() if not name.startswith("_") and callable(value)}
    defined_here = {name for name, value in public.items() if getattr(value, "__module__", None) == module.__name__}
    assert defined_here == set(module.__all__)


def test_every_name_of_the_package_is_there_once():
    assert len(set(muster.__all__)) == len(muster.__all__)
    for name in muster.__all__:
        assert hasattr(muster, name)


def test_ranks_and_collectives_are_found_beside_the_gpus():
    for name in [*collectives.__all__, *process_group.__all__, *ranks.__all__]:
        assert getattr(distributed, name) is getattr(muster, name)


def test_the_version_is_that_of_the_package():
    assert muster.__version__ == importlib.metadata.version("muster")


def test_the_package_is_marked_as_typed_and_its_stub_names_all_that_is_native():
    folder = Path(muster.__file__).parent
    assert (folder / "py.typed").exists()
    stub = (folder / "_native.pyi").read_text()
    named = set(re.findall(r"^(?:class|def) (\w+)|^(\w+):", stub, re.MULTILINE))
    named = {first or second for first, second in named}
    assert named == {name for name in vars(_native) if not name.startswith("__")} | {"__version__"}


def test_importing_and_using_muster_never_imports_torch(machine):
    machine.has_a100s(2)
    output = python_output(
        "import sys, muster\n"
        "muster.print_gpu_info(); muster.set_gpu_device(1); muster.get_gpu_memory_info(); muster.clear_gpu_cache()\n"
        "muster.setup_gpu_environment(num_gpus=1)\n"
        "print([name for name in sys.modules if name.startswith('torch')])"
    )
    assert output.splitlines()[-1] == "[]"


def test_the_native_module_links_neither_torch_nor_cuda():
    output = python_output("import muster; print(open('/proc/self/maps').read())")
    assert "_native" in output
    assert not re.search(r"libtorch|libcudart|libcuda\.|libc10", output)
