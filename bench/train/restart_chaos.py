#!/usr/bin/env python3
"""Random kills of ranks and launchers of muster train: does everything stay the same, bit for bit?

    python3 bench/train/restart_chaos.py [--kills 200] [--seed 1] [--ranks 2] [--endings 0.5] [--rewards] [--off-by 1]
        [--environment math] [--critic] [--other-ranks 1 2 3 4]

The run evaluates, and --endings is the share of kills that wait for its last step, so that they fall into the last evaluation, the
last checkpoint, the export, or what is written after them. Every run that comes to its end is compared with one that nobody
disturbed: the rows of metrics.csv with their evaluations, result.json, and the bytes of the exported model. No process and no
half-made file may be left. With --other-ranks each start has one of these numbers of ranks, and sums are exact. Prints one JSON line. The program is MUSTER_TEST_PROGRAM, or that of the build tree.
"""

import argparse
import json
import pathlib
import random
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests/command/restart"))
from training_runs import EVALUATED, REWARDED, WITH_CRITIC, Chaos, Training  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--endings", type=float, default=0.5, help="share of kills that wait for the last step")
    parser.add_argument("--rewards", action="store_true", help="learning from rewards of sampled answers")
    parser.add_argument("--off-by", type=int, default=0, help="of rewards: training.off_by")
    parser.add_argument("--environment", help="of rewards: the environment that answers are given in, instead of a reward function")
    parser.add_argument("--critic", action="store_true", help="of rewards: by ppo, with a critic of its own")
    parser.add_argument("--other-ranks", type=int, nargs="+", default=[], help="numbers of ranks that starts choose from")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part in ("whole", "killed"):
            (folder / part).mkdir()
        trainings = [Training(folder / part, folder / "cache", distributed__ranks=given.ranks, distributed__max_restarts=10000)
                     for part in ("whole", "killed")]
        for training in trainings:
            training.job |= REWARDED | {"training.off_by": given.off_by} if given.rewards else EVALUATED
            if given.environment:
                training.job |= {"environment.type": given.environment}
            if given.critic:
                training.job |= WITH_CRITIC
            if given.other_ranks:
                training.job |= {"training.deterministic": "true"}
        undisturbed, killed = trainings
        ended = undisturbed()
        assert ended.returncode == 0, ended.stderr
        chaos = Chaos(killed, undisturbed.run(), random.Random(given.seed), given.endings, given.other_ranks)
        chaos.carry_out(given.kills)
    print(json.dumps({"rewards": given.rewards, "seed": given.seed, "ranks": given.other_ranks or given.ranks, "off_by": given.off_by, "environment": given.environment,
                      "critic": given.critic, "kills": chaos.kills, "after_the_last_step": chaos.after_last_step,
                      "runs_finished": chaos.finished, "resumed": len(chaos.resumed), "equal": True,
                      "seconds": round(time.monotonic() - began, 1)}))


if __name__ == "__main__":
    main()
