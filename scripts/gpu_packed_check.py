"""On a host with a GPU: packed weights there. Builds what is needed, tests them against plain ones, and times their products, decoding
and training of the 7B shape beside plain weights.

    python scripts/gpu_packed_check.py [--build build/engine] [--parts tests products decoding training] [--lines FILE]

A build folder that is not there is configured as scripts/gpu_engine_check.sh does it, CARRIED included. --lines: every measured line, as JSON. Prints a short table last: `ok`,
`slow` for what is below its bar, or `FAILED`.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench/generate"), str(ROOT / "bench/train")]
import generate_peer  # noqa: E402
import train_peer  # noqa: E402

SHAPE = "qwen2.5-7b"
TARGETS = ["muster", "muster-worker", "tensor_tests", "bench_packed_product_bench", "bench_generate_bench"]
FORMS = ("int8", "nf4", "fp4")
BARS = {("nf4", 1): 450.0, ("fp4", 1): 450.0, ("int8", 1): 330.0}  # tokens a second on an H200
AT_64 = 0.9  # of plain weights
TRAINING = 0.9


class Check:
    def __init__(self, arguments):
        self.build = pathlib.Path(arguments.build).resolve()
        self.lines = open(arguments.lines, "w") if arguments.lines else None
        self.table = []
        self.failures = 0

    def note(self, good: bool, words: str, otherwise: str = "FAILED") -> None:
        self.failures += not good and otherwise == "FAILED"
        self.table.append(f"{'ok' if good else otherwise:<7} {words}")

    def keep(self, **line) -> None:
        if self.lines:
            print(json.dumps(line), file=self.lines, flush=True)

    def run(self, name: str, *command: str, **options) -> subprocess.CompletedProcess:
        done = subprocess.run(command, capture_output=True, text=True, **options)
        if done.returncode != 0:
            print(done.stdout[-4000:], done.stderr[-4000:], sep="\n", flush=True)
            self.note(False, f"{name}: exit code {done.returncode}")
        return done

    def build_programs(self) -> bool:
        if not (self.build / "build.ninja").exists():
            import torch
            options = [f"-DMUSTER_TORCH={torch.__path__[0]}"]
            if carried := os.environ.get("CARRIED"):
                options.append(f"-DPCRE2_INCLUDE={pathlib.Path(carried).resolve()}/include")
            if self.run("configure", "cmake", "--preset", "engine", "-B", str(self.build), *options, cwd=ROOT).returncode != 0:
                return False
        return self.run("build", "ninja", "-C", str(self.build), *TARGETS).returncode == 0

    def tests(self) -> None:
        command = [str(self.build / "tests/tensor_tests"), "--gtest_brief=1", "--gtest_filter=*Packed*"]
        done = self.run("tests", *command)
        if done.returncode == 0:
            self.note("Gpu" in self.names(), f"tests: {done.stdout.strip().splitlines()[-1]}")
        # The kernels' addresses, where the tool is there and the machine lets it work.
        tool = shutil.which("compute-sanitizer")
        if tool:
            checked = subprocess.run([tool, "--error-exitcode", "9", *command[:1], "--gtest_brief=1", "--gtest_filter=*PackedWeights*Gpu"],
                                     capture_output=True, text=True)
            last = (checked.stdout.strip().splitlines() or ["nothing was printed"])[-1]
            self.note(checked.returncode == 0, f"memory: {last}", "FAILED" if checked.returncode == 9 else "unknown")

    def names(self) -> str:
        return subprocess.run([str(self.build / "tests/tensor_tests"), "--gtest_list_tests"], capture_output=True, text=True).stdout

    def products(self, config: str) -> None:
        done = self.run("products", str(self.build / "bench/generate/packed_product_bench"), config)
        for line in map(json.loads, filter(lambda text: text.startswith("{"), done.stdout.splitlines())):
            self.keep(part="products", **line)
            if line["operation"] == "all" and line["form"] != "plain" and line["rows"] in (1, 8, 64, 2048):
                self.note(line["times_plain"] >= (AT_64 if line["rows"] >= 64 else 1.0),
                          f"products, {line['form']}, {line['rows']} rows: {line['tokens_per_second']:.0f} tokens/s, "
                          f"{line['times_plain']:.2f} of plain", "slow")
            elif "terabytes_per_second" in line and line["rows"] in (0, 1):
                print(f"{line['form']:6} {line['operation']:40} {line['microseconds']:8.1f} us "
                      f"{line['terabytes_per_second']:6.2f} TB/s", flush=True)

    def decoding(self, config: str) -> None:
        plain = {}
        for form in ("", *FORMS):
            for batch in (1, 8, 64):
                done = self.run(f"decoding, {form}", str(self.build / "bench/generate/generate_bench"), config,
                                "bfloat16" + ("+" + form if form else ""), "cuda:0", "16", str(batch), "2", input="128 128\n" * batch)
                if done.returncode != 0:
                    continue
                measured = json.loads(done.stdout)
                rate = measured["writing_rate"]
                self.keep(part="decoding", form=form or "plain", batch=batch, **measured)
                plain.setdefault(batch, rate)
                bar = BARS.get((form, batch), plain[batch] * AT_64)
                self.note(rate >= bar, f"decoding, {form or 'plain'}, batch {batch}: {rate:.0f} tokens/s, "
                                       f"{rate / plain[batch]:.2f} of plain (bar {bar:.0f})", "slow")

    def training(self) -> None:
        adapters = ["model.use_lora=true", "model.lora_r=16", "model.lora_dropout=0", "model.lora_target_modules=all-linear"]
        packed = ["model.load_in_4bit=true", "model.bnb_4bit_quant_type=nf4"]
        for shape, batch, bar in (("qwen2.5-0.5b", 8, 150_000), (SHAPE, 1, 13_000)):
            plain = 0.0
            for name, settings in (("LoRA", adapters), ("QLoRA", adapters + packed)):
                if name == "QLoRA":
                    bar = TRAINING * plain
                arguments = argparse.Namespace(muster=str(self.build / "apps/cli/muster"), steps=15, dtype="bfloat16", device="cuda",
                                               threads=16, strategy="ddp", settings=settings)
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        measured = train_peer.measure_ours(arguments, shape, 1, batch, 2048, pathlib.Path(folder))
                    except SystemExit as failed:
                        self.note(False, f"training, {shape}, {name}: {str(failed)[-400:]}")
                        continue
                self.keep(part="training", shape=shape, batch=batch, form=name, **measured)
                plain = plain or measured["tokens"]
                self.note(measured["tokens"] >= bar, f"training, {shape}, {name}, {batch} x 2048 tokens: {measured['tokens']:.0f} tokens/s "
                          f"(bar {bar:.0f}), {measured['peak'] / 2**30:.1f} GiB", "slow")


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/engine")
    parser.add_argument("--parts", nargs="+", default=["tests", "products", "decoding", "training"],
                        choices=["tests", "products", "decoding", "training"])
    parser.add_argument("--lines")
    arguments = parser.parse_args()
    check = Check(arguments)
    if check.build_programs():
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "config.json"
            config.write_text(json.dumps(generate_peer.SHAPES[SHAPE]))
            for part in arguments.parts:
                work = getattr(check, part)
                work(str(config)) if part in ("products", "decoding") else work()
    print("--- packed weights", *check.table, sep="\n")
    return check.failures > 0


if __name__ == "__main__":
    sys.exit(main())
