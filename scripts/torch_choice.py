"""Decides whether the torch of the Python that runs this is new enough, and describes one that would be downloaded.

probe            prints "VERSION<tab>FOLDER" (exit 0), or one line saying why it cannot be taken (exit 3)
describe REPORT  reads what `pip install --dry-run --report REPORT` wrote and prints one line on what would come
"""

import json
import os
import re
import sys

MINIMUM = (2, 11)


def new_enough(version: str) -> bool:
    """Whether a version such as "2.11.0a0+git123" is at least MINIMUM; builds before a release count as the release."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return match is not None and (int(match[1]), int(match[2])) >= MINIMUM


def probe() -> int:
    least = ".".join(map(str, MINIMUM))
    try:
        import torch
    except ImportError as problem:
        print(f"{sys.executable} has no torch that can be imported ({problem}); {least} or newer is needed")
        return 3
    except Exception as problem:  # A broken build may raise anything while it loads its libraries.
        print(f"torch of {sys.executable} fails to load ({type(problem).__name__}: {problem})".replace("\n", " "))
        return 3
    version = str(getattr(torch, "__version__", "of an unknown version"))
    if torch.__file__ is None or not new_enough(version):
        print(f"torch {version} of {sys.executable} is too old; {least} or newer is needed")
        return 3
    print(f"{version}\t{os.path.dirname(os.path.abspath(torch.__file__))}")
    return 0


def describe(report: dict) -> str:
    """One line on the packages of a pip installation report: how many, and whether CUDA libraries are among them."""
    packages = {item["metadata"]["name"].lower(): item["metadata"]["version"] for item in report["install"]}
    libraries = [name for name in packages if name.startswith("nvidia-")]
    torch = f"torch {packages['torch']}" if "torch" in packages else "no torch"
    others = len(packages) - ("torch" in packages)
    size = f"{len(libraries)} CUDA libraries (nvidia-*) among them: several GB" if libraries else "a CPU build: about 200 MB"
    return f"{torch} and {others} other packages, {size}"


def main(arguments: list[str]) -> int:
    if arguments == ["probe"]:
        return probe()
    if len(arguments) == 2 and arguments[0] == "describe":
        with open(arguments[1], encoding="utf-8") as file:
            print(describe(json.load(file)))
        return 0
    print("usage: torch_choice.py probe | describe REPORT", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
