"""Writes what this rank sees of its process to facts/<restart>-<rank>.json; ends with the code given after --exit-code."""

import json
import os
import resource
import sys

descriptors = {}
for number in sorted(int(name) for name in os.listdir("/proc/self/fd")):
    try:
        descriptors[number] = os.readlink(f"/proc/self/fd/{number}").split(":")[0]
    except FileNotFoundError:
        pass  # the listing itself
status = dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
umask = os.umask(0)
os.umask(umask)
facts = {
    "environment": dict(os.environ),
    "arguments": sys.argv,
    "name": __name__,
    "interpreter": sys.executable,
    "interpreter_flags": str(sys.flags),
    "path": sys.path,
    "folder": os.getcwd(),
    "terminal": [os.isatty(number) for number in (0, 1, 2)],
    "leads_its_session": os.getsid(0) == os.getpid(),
    "leads_its_group": os.getpgid(0) == os.getpid(),
    "umask": umask,
    "nice": os.nice(0),
    "processors": sorted(os.sched_getaffinity(0)),
    "descriptors": descriptors,
    "signals_blocked": status["SigBlk"],
    "signals_ignored": status["SigIgn"],
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")},
    "out_of_memory_score": open("/proc/self/oom_score_adj").read(),
    "first_line_of_input": sys.stdin.readline(),
}
restart = os.environ["TORCHELASTIC_RESTART_COUNT"]
with open(f"facts/{restart}-{os.environ['RANK']}.json.part", "w") as file:
    json.dump(facts, file)
os.rename(file.name, file.name.removesuffix(".part"))
if "--fail-first" in sys.argv and restart == "0":
    sys.exit(7)
