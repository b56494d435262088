"""Where the tasks of a Slurm step meet by default: srun sets no MASTER_ADDR and no MASTER_PORT."""

import re
from collections.abc import Mapping
from typing import Optional

_FIRST_PORT = 20000
_PORTS = 12000  # up to where the kernel's own choices begin


def first_host(environment: Mapping[str, str]) -> Optional[str]:
    """The first machine of the step, where rank 0 runs."""
    hosts = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST")
    if not hosts or "SLURM_PROCID" not in environment:
        return None
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])+", hosts)  # up to the first comma outside of brackets
    # "gpu[07-12,15]" begins with gpu07.
    return re.sub(r"\[([^\],-]*)[^\]]*\]", r"\1", first.group()) if first else None


def port_of_step(environment: Mapping[str, str]) -> Optional[int]:
    """The same for every task of a step; other steps and jobs of the machine get others, but for a rare coincidence."""
    job, step = environment.get("SLURM_JOB_ID", ""), environment.get("SLURM_STEP_ID", "0")
    if not job.isdecimal() or not step.isdecimal() or "SLURM_PROCID" not in environment:
        return None
    return _FIRST_PORT + (int(job) * 16 + int(step)) % _PORTS
