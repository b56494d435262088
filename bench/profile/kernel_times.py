"""Where the GPU's time went in the last steps of a training run that kernel_trace.so has watched.

    python bench/profile/kernel_times.py TRACE [--steps 3] [--rows 40] [--by-grid]

A step ends with the last kernel of the optimizer. Prints the time of a step, how much of it some kernel ran, and a line for each kernel:
milliseconds a step, launches a step, microseconds a launch.
"""

import argparse
import collections
import subprocess

END_OF_STEP = "adamw_step"
BETWEEN_STEPS = 300  # more records than this lie between the optimizers of two steps


def read(path: str) -> list[tuple[int, int, str, str]]:
    """Begin, end, grid and name, in order."""
    rows = []
    with open(path) as trace:
        for line in trace:
            words = line.rstrip("\n").split(" ", 4)
            if len(words) == 5:
                rows.append((int(words[0]), int(words[1]), words[3], words[4]))
    return sorted(rows)


def plain(names: set[str]) -> dict[str, str]:
    given = sorted(names)
    told = subprocess.run(["c++filt"], input="\n".join(given), capture_output=True, text=True, check=True).stdout.splitlines()
    for part in ("(anonymous namespace)::", "at::native::", "muster::cuda::"):
        told = [name.replace(part, "") for name in told]
    return dict(zip(given, told, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--by-grid", action="store_true", help="launches of other sizes apart")
    arguments = parser.parse_args()
    rows = read(arguments.trace)
    marks = [i for i, row in enumerate(rows) if END_OF_STEP in row[3]]
    ends = [i for i, following in zip(marks, [*marks[1:], len(rows) + BETWEEN_STEPS], strict=True) if following - i > BETWEEN_STEPS]
    if len(ends) <= arguments.steps:
        parser.error(f"the trace has {len(ends)} steps; {arguments.steps + 1} are wanted")
    first, last = ends[-1 - arguments.steps], ends[-1]
    steps, chosen = arguments.steps, rows[first + 1:last + 1]
    busy, until = 0, rows[first][1]
    times = collections.defaultdict(lambda: [0, 0])
    for begin, end, grid, name in chosen:
        busy += max(0, end - max(begin, until))
        until = max(until, end)
        entry = times[name, grid if arguments.by_grid else ""]
        entry[0] += 1
        entry[1] += end - begin
    span = rows[last][1] - rows[first][1]
    print(f"a step: {span / 1e6 / steps:.2f} ms, some kernel ran for {busy / 1e6 / steps:.2f} ms, {len(chosen) / steps:.0f} launches")
    names = plain({name for name, _ in times})
    for (name, grid), (count, spent) in sorted(times.items(), key=lambda entry: -entry[1][1])[:arguments.rows]:
        print(f"{spent / 1e6 / steps:9.3f} ms {count / steps:7.1f} × {spent / count / 1e3:9.1f} µs  {grid} {names[name][:110]}")


if __name__ == "__main__":
    main()
