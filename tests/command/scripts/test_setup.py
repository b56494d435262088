"""scripts/setup.sh: what it finds missing, what it says, what it installs."""

import json

import pytest
import torch_choice
from fake_tree import write_command

# Brings ninja; writes down what it was asked.
FAKE_APT_GET = """#!/usr/bin/env bash
echo "apt-get $*" >>"$FAKE_CALLS"
case "$*" in
  *--assume-no*) echo "Need to get 1,234 kB/5.6 MB of archives."; exit 1 ;;
  *"install -y"*) [[ -z ${FAKE_APT_BROKEN:-} ]] || { echo "E: no such package"; exit 100; }
    printf '#!/usr/bin/env bash\\necho 1.11.1\\n' >"${0%/*}/ninja"; chmod +x "${0%/*}/ninja" ;;
esac
"""

# Python whose venv and pip are fakes: the environment it makes runs this script too, and pip brings a torch of its own.
FAKE_PYTHON = """#!/usr/bin/env bash
case "$*" in
  "-m venv "*)
    echo "python $*" >>"$FAKE_CALLS"
    mkdir -p "${!#}/bin" && cp "$0" "${!#}/bin/python" ;;
  "-m pip install --dry-run --quiet --report "*)
    echo "pip dry run" >>"$FAKE_CALLS"
    cp "$FAKE_REPORT" "$7" ;;
  "-m pip install "*)
    echo "pip $*" >>"$FAKE_CALLS"
    [[ -z ${FAKE_PIP_BROKEN:-} ]] || { echo "no space left on device"; exit 1; }
    mkdir -p "${0%/*}/torch" && echo "__version__ = '2.13.0+cpu'" >"${0%/*}/torch/__init__.py" ;;
  *)
    if [[ -d ${0%/*}/torch ]]; then export PYTHONPATH=${0%/*}; fi
    exec python3 "$@" ;;
esac
"""


def write_torch(folder, version):
    (folder / "torch").mkdir(parents=True)
    (folder / "torch/__init__.py").write_text(f"__version__ = '{version}'\n")
    return folder


def write_report(file, *packages):
    install = [{"metadata": {"name": name, "version": version}} for name, version in packages]
    file.write_text(json.dumps({"install": install}))
    return file


def test_it_changes_nothing_where_everything_is_there(tree):
    result = tree.setup("control", MUSTER_SETUP="never")
    assert result.returncode == 0, result.stderr
    assert not (tree.root / ".muster").exists()


@pytest.mark.parametrize(
    ("variables", "description", "package"),
    [
        ({"FAKE_CMAKE_VERSION": "3.24.9"}, "cmake 3.25 or newer (found: 3.24.9)", "cmake"),
        ({"FAKE_GCC_VERSION": "11"}, "g++ 12 or newer (found: gcc 11.2)", "g++"),
        ({"FAKE_MISSING_PACKAGE": "libyaml-cpp-dev"}, "yaml-cpp/yaml.h", "libyaml-cpp-dev"),
    ],
)
def test_what_is_missing_is_named_with_what_was_found_and_the_command_to_get_it(tree, variables, description, package):
    write_command(tree.commands / "apt-get", FAKE_APT_GET)
    result = tree.setup("control", MUSTER_SETUP="never", **variables)
    assert result.returncode == 2
    assert description in result.stderr
    commands = [line for line in result.stderr.splitlines() if "apt-get install" in line]
    assert len(commands) == 1
    assert package in commands[0].split()
    assert tree.calls() == []


@pytest.mark.parametrize("version", ["3.25.0", "3.31.2", "4.0.1"])
def test_any_cmake_on_the_path_that_is_new_enough_is_taken(tree, version):
    assert tree.setup("control", MUSTER_SETUP="never", FAKE_CMAKE_VERSION=version).returncode == 0


def test_without_apt_get_the_names_are_given(tree):
    (tree.commands / "ninja").unlink()
    result = tree.setup("control")
    assert result.returncode == 2
    assert "there is no apt-get here" in result.stderr
    assert "ninja-build" in result.stderr


def test_every_missing_thing_is_reported_at_once(tree):
    for name in ("ninja", "cmake", "c++"):
        (tree.commands / name).unlink()
    result = tree.setup("control", MUSTER_SETUP="never")
    assert result.returncode == 2
    for package in ("ninja-build", "cmake", "g++"):
        assert package in result.stderr


# The user may be anyone: sudo lets the command through.
def permit_apt_get(tree):
    write_command(tree.commands / "sudo", '#!/usr/bin/env bash\n[[ $1 != -n ]] || shift\nexec "$@"\n')
    write_command(tree.commands / "apt-get", FAKE_APT_GET)
    (tree.commands / "ninja").unlink()


def test_missing_packages_are_installed_after_saying_which_and_how_large(tree):
    permit_apt_get(tree)
    result = tree.setup("control")
    assert result.returncode == 0, result.stderr
    announced = next(line for line in result.stderr.splitlines() if "installing with apt-get" in line)
    assert "ninja-build" in announced and "1,234 kB/5.6 MB" in announced
    calls = tree.calls()
    assert [("update" in call, "--assume-no" in call, "install -y" in call) for call in calls] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]
    assert "done in" in result.stderr


# A system Python without the parts that Debian ships apart, until apt-get has brought them.
BARE_PYTHON = FAKE_PYTHON.replace(
    "case",
    """if [[ $1 == -c && $2 == *ensurepip* && ! -e $FAKE_PARTS ]]; then
  python3 "$@" | sed -e '3s/.*/no/' -e '4s/.*/no/' -e '5s#.*#/usr/bin/python3#'
  exit
fi
case""",
    1,
)


def test_parts_of_python_that_apt_get_brings_are_seen_at_once(tree, tmp_path):
    permit_apt_get(tree)
    write_command(tmp_path / "python", BARE_PYTHON)
    write_command(tree.commands / "readelf", "#!/usr/bin/env bash\necho 2.40\n")
    for name in ("tmux", "protoc", "grpc_cpp_plugin"):
        write_command(tree.commands / name, "#!/usr/bin/env bash\n")
    result = tree.setup(
        "tests",
        MUSTER_PYTHON=str(tmp_path / "python"),
        FAKE_PARTS=str(tree.commands / "ninja"),
        FAKE_REPORT=str(write_report(tmp_path / "report.json", ("torch", "2.13.0"))),
        FAKE_PIP_BROKEN="1",  # far enough
    )
    announced = next(line for line in result.stderr.splitlines() if "installing with apt-get" in line)
    assert "-venv" in announced and "-dev" in announced
    assert "not installed" not in result.stderr, result.stderr


def test_a_failed_installation_shows_its_output_and_what_to_do(tree):
    permit_apt_get(tree)
    result = tree.setup("control", FAKE_APT_BROKEN="1")
    assert result.returncode == 1
    assert "E: no such package" in result.stderr
    assert str(tree.root / ".muster/setup.log") in result.stderr


def test_an_unknown_component_is_refused_with_the_known_ones(tree):
    result = tree.setup("controll")
    assert result.returncode == 2
    assert "'controll'" in result.stderr and "control, tests, engine" in result.stderr


def test_a_torch_that_is_new_enough_is_taken_as_it_is(tree, tmp_path):
    packages = write_torch(tmp_path / "packages", "2.12.0+cu130")
    result = tree.setup("engine", PYTHONPATH=str(packages), MUSTER_SETUP="never")
    assert result.returncode == 0, result.stderr
    assert "2.12.0+cu130" in result.stderr
    assert (tree.root / ".muster/torch-location").read_text() == f"{packages / 'torch'}\n"
    assert not (tree.root / ".muster/venv").exists()


def test_the_choice_of_torch_is_remembered_until_that_torch_is_gone(tree, tmp_path):
    packages = write_torch(tmp_path / "packages", "2.12.0")
    tree.setup("engine", PYTHONPATH=str(packages), MUSTER_SETUP="never")
    (packages / "torch/marker.py").touch()
    # Not importable any more, but recorded and still there.
    assert tree.setup("engine", MUSTER_SETUP="never", PYTHONPATH="/nonexistent").returncode == 0
    packages.rename(tmp_path / "elsewhere")
    old = write_torch(tmp_path / "old", "2.10.0")
    assert tree.setup("engine", MUSTER_SETUP="never", PYTHONPATH=str(old)).returncode == 2


def test_an_old_torch_is_not_taken_and_is_named(tree, tmp_path):
    packages = write_torch(tmp_path / "packages", "2.9.1")
    result = tree.setup("engine", PYTHONPATH=str(packages), MUSTER_SETUP="never")
    assert result.returncode == 2
    assert "torch 2.9.1" in result.stderr and "2.11" in result.stderr
    assert "pip install torch==" in result.stderr
    assert not (tree.root / ".muster/torch-location").exists()


def install_torch(tree, tmp_path, *packages, **variables):
    write_command(tmp_path / "python", FAKE_PYTHON)
    old = write_torch(tmp_path / "old", "2.9.1")
    report = write_report(tmp_path / "report.json", *packages)
    return tree.setup(
        "engine", MUSTER_PYTHON=str(tmp_path / "python"), FAKE_REPORT=str(report), PYTHONPATH=str(old), **variables
    )


def test_a_torch_is_installed_after_saying_what_comes_and_how_to_avoid_it(tree, tmp_path):
    result = install_torch(tree, tmp_path, ("torch", "2.13.0"), ("nvidia-cublas", "13"), ("sympy", "1"))
    assert result.returncode == 0, result.stderr
    lines = result.stderr.splitlines()
    announced = next(index for index, line in enumerate(lines) if "several GB" in line)
    assert "torch 2.13.0 and 2 other packages" in lines[announced]
    assert "to avoid this download" in lines[announced + 1]
    assert "installing torch==2.13.0" in lines[announced + 2]
    assert [call.split()[0] for call in tree.calls()] == ["python", "pip", "pip"]
    assert "--system-site-packages" not in tree.calls()[0]
    assert (tree.root / ".muster/torch-location").read_text() == f"{tree.root}/.muster/venv/bin/torch\n"


def test_a_failed_installation_of_torch_is_tried_again_by_the_next_run(tree, tmp_path):
    result = install_torch(tree, tmp_path, ("torch", "2.13.0+cpu"), FAKE_PIP_BROKEN="1")
    assert result.returncode == 1
    assert "no space left on device" in result.stderr
    assert not (tree.root / ".muster/torch-choice").exists()
    result = tree.setup(
        "engine",
        MUSTER_PYTHON=str(tmp_path / "python"),
        FAKE_REPORT=str(tmp_path / "report.json"),
        PYTHONPATH=str(tmp_path / "old"),
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.11.0", True),
        ("2.11.0a0+nv25.1", True),
        ("2.13.0+cpu", True),
        ("3.0", True),
        ("2.10.9", False),
        ("2.9.1+cu128", False),
        ("1.13.1", False),
        ("unknown", False),
    ],
)
def test_torch_versions_are_compared_as_numbers(version, expected):
    assert torch_choice.new_enough(version) is expected


def test_a_download_without_cuda_libraries_is_called_a_cpu_build():
    report = {"install": [{"metadata": {"name": name, "version": "1.0"}} for name in ("torch", "sympy", "filelock")]}
    assert torch_choice.describe(report) == "torch 1.0 and 2 other packages, a CPU build: about 200 MB"
