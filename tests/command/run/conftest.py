"""Experiments in a folder of their own, with a queue of their own, on the GPUs of an inventory file."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
from waiting import until

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAM", ROOT / "build/engine/apps/cli/muster"))

# Each stage notes that it begins and ends, when, and with which GPUs; what FAIL names fails, what FAIL_FIRST names
# fails at its first attempt, what SLOW names waits.
STAGE = """note() { echo "$1 ${job}.STAGE $(date +%s%N) $CUDA_VISIBLE_DEVICES ${gpus}" >> journal; }
note begin
case " $FAIL " in *" ${job}.STAGE "*) exit 7;; esac
case " $FAIL_FIRST " in *" ${job}.STAGE "*) [ "$MUSTER_ATTEMPT" != 1 ] || exit 7;; esac
case " $SLOW " in *" ${job}.STAGE "*) sleep 100;; esac
sleep 0.05
WORK
note end
"""
WORK = {
    "generate": "echo ${model} ${seed} > ${output}",
    "train": "mkdir -p ${output}; cat ${data} > ${output}/w.bin; echo ${job} >> ${output}/w.bin",
    "evaluate": """printf '{"score": %d, "weights": "%s"}' ${round} $(sha256sum ${model}/w.bin | cut -d' ' -f1) > ${output}""",
}


class Note:
    def __init__(self, line: str):
        self.what, self.stage, moment, *rest = line.rstrip("\n").split(" ")
        self.time = int(moment)
        self.mask, self.gpus = rest


class Laboratory:
    until = staticmethod(until)
    program = PROGRAM

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "CUDA_"))},
            "MUSTER_STATE": str(folder / "state"),
            "MUSTER_LEASE_DIR": str(folder / "leases"),
            "MUSTER_CACHE": str(folder / "cache"),
            "MUSTER_GPUS": str(folder / "gpus.yaml"),
            "MUSTER_QUEUE_IDLE": "500ms",
            "MUSTER_QUEUE_GRACE": "500ms",
        }
        if "MUSTER_WORKER" in os.environ:
            self.environment["MUSTER_WORKER"] = os.environ["MUSTER_WORKER"]
        self.set_gpus(2)

    def set_gpus(self, count: int):
        row = f"[{{count: {count}, name: GPU of a test, memory_total: 80GiB}}]" if count else "[]"
        (self.folder / "gpus.yaml").write_text(f"gpus: {row}\n")

    @staticmethod
    def stage(name: str, before: str = "") -> dict:
        """before: a line of shell that its work waits for."""
        return {"command": ["sh", "-c", STAGE.replace("STAGE", name).replace("WORK", before + WORK[name])]}

    def write(self, name: str = "lab", families=("a", "b"), **more) -> pathlib.Path:
        """An experiment of commands: one algorithm, one data set, two rounds."""
        spec = {
            "experiment": {"name": name},
            "rounds_of_training": 2,
            "algorithms": {"sft": None},
            "families": {family: f"/models/{family}" for family in families},
            "datasets": {"d": "/data/d"},
            **{stage: self.stage(stage) for stage in WORK},
            **more,
        }
        file = self.folder / f"{name}.yaml"
        file.write_text(json.dumps(spec, indent=1))
        return file

    def start(self, *words, **variables) -> subprocess.Popen:
        return subprocess.Popen([str(PROGRAM), *map(str, words)], env={**self.environment, **variables}, cwd=self.folder,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *words, status: int | None = 0, **variables) -> subprocess.CompletedProcess:
        process = self.start(*words, **variables)
        out, errors = process.communicate(timeout=120)
        assert status is None or process.returncode == status, out + errors
        return subprocess.CompletedProcess(words, process.returncode, out, errors)

    def journal(self) -> list[Note]:
        file = self.folder / "journal"
        return [Note(line) for line in file.read_text().splitlines()] if file.exists() else []

    def ended(self) -> list[str]:
        return [note.stage for note in self.journal() if note.what == "end"]

    def spans(self) -> list[tuple[Note, Note]]:
        ends = {note.stage: note for note in self.journal() if note.what == "end"}
        return [(note, ends[note.stage]) for note in self.journal() if note.what == "begin" and note.stage in ends]

    def read(self, *names: str) -> dict:
        return json.loads((self.folder / "experiments").joinpath(*names).read_text())

    def statuses(self, name: str = "lab") -> dict[str, str]:
        lines = (self.folder / "experiments" / name / "results.csv").read_text().splitlines()
        return {line.split(",")[0]: line.split(",")[5] for line in lines[1:]}

    def kill_everything(self):
        """Every process that works for this laboratory: commands, keepers, conductor."""
        mark = f"MUSTER_STATE={self.folder / 'state'}".encode()
        for _ in range(50):
            found = 0
            for process in pathlib.Path("/proc").glob("[0-9]*"):
                try:
                    if mark in (process / "environ").read_bytes().split(b"\0"):
                        os.kill(int(process.name), signal.SIGKILL)
                        found += 1
                except OSError:
                    continue
            if not found:
                return
            time.sleep(0.02)


@pytest.fixture
def laboratory(tmp_path):
    place = Laboratory(tmp_path)
    yield place
    place.kill_everything()
