"""A rank that dies with the GPU's memory full, and is started again: what does it find? Run by gpu_host_check.sh:

muster launch -n 1 --max-restarts 1 scripts/gpu_restart_check.py
"""

import os
import signal
import subprocess

query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
used = int(subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0])
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
print(f"attempt {attempt} finds {used} MiB in use", flush=True)
assert used < 1024, "the last round's memory is not back"

import torch  # noqa: E402

if attempt == 0:
    held = torch.ones(40 << 28, device="cuda")  # 40 GiB
    torch.cuda.synchronize()
    os.kill(os.getpid(), signal.SIGKILL)
print(f"attempt {attempt} computes on {torch.cuda.get_device_name(0)}: {torch.ones(4, device='cuda').sum().item()}")
