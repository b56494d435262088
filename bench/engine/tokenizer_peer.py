"""How fast the same text becomes ids with muster and with the tokenizers library: tokenizer_peer.py [--megabytes N].

Both run one after the other with Llama 3's vocabulary; the library through encode_batch with its parallelism off. Prints JSON
lines and the ratio, by the clock and by the processor's time (which says more where others use the machine). The text is real: a third English prose (Debian's bible-kjv-text, miscfiles, fortunes, else the machine's
documentation), a third source code (C headers and Python's library), a third text of other languages (the catalogues of
messages of the installed programs). What is scarce is repeated; the lines say how much of each there was.
"""

import argparse
import gettext
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/peer/tokenizers"))

DOCUMENT = 8_000  # bytes, about


def readable(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").replace("\0", "") if path.stat().st_size < 5_000_000 else ""
    except (OSError, UnicodeDecodeError):
        return ""


def files(folders: list[str], endings: tuple[str, ...], limit: int) -> str:
    texts, size = [], 0
    for folder in folders:
        for path in sorted(Path(folder).rglob("*")) if Path(folder).is_dir() else []:
            if size < limit and path.is_file() and (not endings or path.name.endswith(endings)):
                text = readable(path)
                texts.append(text)
                size += len(text)
    return "\n".join(texts)


def bible() -> str:
    done = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], capture_output=True, text=True) if Path("/usr/bin/bible").exists() else None
    return done.stdout if done and done.returncode == 0 else ""


def english(limit: int) -> str:
    return bible() + files(["/usr/share/games/fortunes", "/usr/share/misc", "/usr/share/state", "/usr/share/perl", "/usr/share/doc"],
                           ("", ), limit)


def code(limit: int) -> str:
    return files(["/usr/include", str(Path(os.__file__).parent)], (".h", ".hpp", ".py", ".c"), limit)


def messages(limit: int) -> str:
    texts, size = [], 0
    for path in sorted(Path("/").glob("usr/share/locale/*/LC_MESSAGES/*.mo")) + sorted(Path(sys.prefix).rglob("*.mo")):
        try:
            with path.open("rb") as file:
                catalogue = gettext.GNUTranslations(file)._catalog
        except (OSError, ValueError, IndexError, LookupError):  # damaged, or in a coding that is not known
            continue
        found = "\n".join(text for text in catalogue.values() if isinstance(text, str) and not text.isascii())
        texts.append(found.replace("\0", ""))
        size += len(found.encode())
        if size > limit:
            break
    if not texts:  # no catalogues here: names of characters' own scripts do not exist as files, so code with other letters serves
        texts.append("\n".join(line for line in files(["/usr/share", sys.prefix], (".html", ".txt", ".json", ".py"), 40_000_000).splitlines()
                               if not line.isascii()))
    return "\n".join(texts)


def documents(megabytes: float) -> tuple[list[str], dict]:
    share = int(megabytes * 1e6 / 3)
    found = {"english": english(share), "code": code(share), "other_languages": messages(share)}
    parts, mixture = [], {}
    for kind, text in found.items():
        bytes_ = text.encode()
        mixture[kind] = {"distinct_bytes": min(len(bytes_), share), "bytes": share}
        whole = (bytes_ * (share // max(1, len(bytes_)) + 1))[:share].decode(errors="ignore")
        parts += [whole[i:i + DOCUMENT] for i in range(0, len(whole), DOCUMENT)]
    random.Random(1).shuffle(parts)
    return parts, mixture


def sum_of(lists) -> int:
    total = 0
    for ids in lists:
        for id in ids:
            total = (total * 31 + id) % 1_000_000_007
    return total


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--megabytes", type=float, default=100)
    arguments.add_argument("--program", default=str(ROOT / "build/engine/bench/engine/tokenizer_bench"))
    arguments.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    given = arguments.parse_args()
    import real_tokenizers
    from tokenizers import Tokenizer

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        file = real_tokenizers.llama3(folder)
        texts, mixture = documents(given.megabytes)
        (folder / "text").write_bytes("\0".join(texts).encode())
        size = sum(len(text.encode()) for text in texts)
        print(json.dumps({"bench": "tokenizer", "bytes": size, "documents": len(texts), "mixture": mixture}), flush=True)
        start = time.perf_counter()
        library = Tokenizer.from_file(str(file))
        load = time.perf_counter() - start
        start, processor = time.perf_counter(), time.process_time()
        encodings = library.encode_batch(texts, add_special_tokens=False)
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
        lists = [encoding.ids for encoding in encodings]
        del encodings
        peer = {"bench": "tokenizer", "who": "tokenizers", "threads": 1, "bytes": size, "ids": sum(map(len, lists)), "sum": sum_of(lists),
                "seconds": round(seconds, 3), "processor_seconds": round(processor, 3), "megabytes_per_second": round(size / 1e6 / seconds, 2), "load_seconds": round(load, 3)}
        del lists
        print(json.dumps(peer), flush=True)
        command = [given.program, str(file), str(folder / "text"), *map(str, given.threads)]
        ours = [json.loads(line) for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()]
    for line in ours:
        print(json.dumps(line))
    ratios = {str(line["threads"]): round(line["megabytes_per_second"] / peer["megabytes_per_second"], 2) for line in ours}
    by_processor = round(peer["processor_seconds"] / ours[0]["processor_seconds"], 2)
    print(json.dumps({"bench": "tokenizer", "same_ids": all(line["sum"] == peer["sum"] for line in ours), "ratio": ratios,
                      "ratio_by_processor_time": by_processor}))


if __name__ == "__main__":
    main()
