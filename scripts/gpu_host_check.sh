#!/usr/bin/env bash
# On a host with a GPU: builds the control plane, runs its native and command-line tests against the real driver, times
# listing and leases, and prints a short table last. Needs what scripts/setup.sh control and tests need.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
unset CUDA_VISIBLE_DEVICES

cmake --preset control >/tmp/muster-configure.log 2>&1 || { cat /tmp/muster-configure.log; exit 1; }
ninja -C build/control >/tmp/muster-build.log 2>&1 || { tail -40 /tmp/muster-build.log; exit 1; }
program=build/control/apps/cli/muster
status=0
ctest --preset control -j8 >/tmp/muster-ctest.log 2>&1 || { status=1; tail -60 /tmp/muster-ctest.log; }
python3 -m pytest -q tests/command/cli >/tmp/muster-pytest.log 2>&1 || { status=1; tail -40 /tmp/muster-pytest.log; }

$program gpus
$program gpus --topology
$program gpus --query index,uuid,memory.total,memory.used,memory.free,temperature.gpu,power.draw,compute_cap --format csv
nvidia-smi --query-gpu=index,uuid,memory.total,memory.used,memory.free,temperature.gpu,power.draw,compute_cap --format=csv
$program doctor || status=1
$program gpus hold -n 1 -- python3 -c 'import torch; print("torch sees", torch.cuda.device_count(), torch.cuda.get_device_name(0))' || status=1

# A killed holder's memory is back before the next holder starts.
coproc holder { $program gpus hold -n 1 -- python3 -c 'import sys, torch; x = torch.ones(60 << 28, device="cuda"); print("holding", flush=True); sys.stdin.read()'; }
read -r line <&"${holder[0]}" && echo "$line"
$program gpus | tail -1
kill -9 "$holder_PID"
$program gpus hold -n 1 --wait=20s -- sh -c 'echo "next holder finds $(nvidia-smi --query-gpu=memory.used --format=csv,noheader) in use"' || status=1

# A rank that dies with the memory full is started again when the memory is back.
$program launch -n 1 --max-restarts 1 scripts/gpu_restart_check.py || status=1
# A collective of torch over NCCL, through muster's store.
$program launch -n 1 --log-dir /dev/null scripts/gpu_collective_check.py || status=1
$program launch --nproc-per-node 4 --device cpu scripts/gpu_store_check.py || status=1

# What the plan says fits, trains.
python3 scripts/gpu_plan_check.py "$program" || status=1

echo "--- numbers"
python3 bench/gpus_bench.py
build/control/bench/lease_bench
build/control/bench/selection_bench
build/control/bench/launch_bench --muster "$program" --torchrun "$(command -v torchrun || echo)" --torchrun-runs 2 || status=1
build/control/bench/store_bench
build/control/bench/rendezvous_bench
build/control/bench/log_bench
if [[ ${1:-} == --long ]]; then
  # A million mutated texts, and contenders that are killed at random, on all cores.
  for seed in 1 2 3 4 5 6 7 8; do build/control/tests/parser_fuzz --inputs 130000 --seed "$seed" 2>/dev/null & done
  wait
  for seed in 1 2 3 4 5 6 7 8; do build/control/tests/store_fuzz --messages 130000 --seed "$seed" 2>/dev/null & done
  wait
  for seed in 1 2 3 4 5; do python3 bench/launch_chaos.py --rounds 200 --seed "$seed" & done
  wait
  build/control/bench/lease_stress --contenders 200 --gpus 8 --rounds 1000 --seed 1 || status=1
fi
tail -3 /tmp/muster-ctest.log | head -1
tail -1 /tmp/muster-pytest.log
exit $status
