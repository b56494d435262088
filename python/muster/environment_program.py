"""An environment in Python as a program: python -m muster.environment_program FILE.py:NAME, or MODULE:NAME

For `environment.type=program` of muster train, muster collect and muster serve-environments.
"""

import importlib
import importlib.util
import sys

from .environments import serve_environment


def main(words: list[str]) -> int:
    place, _, name = words[0].rpartition(":") if len(words) == 1 else ("", "", "")
    if not place or not name:
        print("usage: python -m muster.environment_program FILE.py:NAME, or MODULE:NAME", file=sys.stderr)
        return 2
    if place.endswith(".py"):
        spec = importlib.util.spec_from_file_location("environment_of_the_user", place)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    serve_environment(getattr(module, name))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
