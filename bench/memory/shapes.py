"""The models whose memory is measured: public shapes, as AutoConfig.for_model takes them. shapes.json is the one list of
them, which tests/unit/plan reads too."""

import json
import pathlib

shapes = json.loads((pathlib.Path(__file__).parent / "shapes.json").read_text())
