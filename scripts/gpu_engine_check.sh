#!/usr/bin/env bash
# On a host with a GPU: builds the engine, and runs what must be proven there: communicators over Gloo and NCCL with several ranks
# on one GPU, logits against transformers, deterministic mode. Prints a short table last.
#
#   scripts/gpu_engine_check.sh [PYTEST_ARGUMENTS...]
#
# MUSTER_CARRIED=FOLDER: include/ and lib/ of libraries that this host lacks.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
unset CUDA_VISIBLE_DEVICES
status=0
table=()

step() { # NAME COMMAND...
  local name=$1 started=$SECONDS log=/tmp/muster-check-${1// /-}.log
  shift
  if "$@" >"$log" 2>&1; then
    table+=("ok      $name ($((SECONDS - started)) s): $(tail -n 1 "$log")")
  else
    status=1
    table+=("FAILED  $name ($((SECONDS - started)) s): $(tail -n 1 "$log")")
    tail -n 60 "$log"
  fi
}

torch=$(python3 -c 'import torch; print(torch.__path__[0])')
carried=${MUSTER_CARRIED:-}
options=("-DMUSTER_TORCH=$torch")
if [[ -n $carried ]]; then options+=("-DCMAKE_PREFIX_PATH=$(readlink -f "$carried")"); fi
step "configure" cmake --preset engine "${options[@]}"
step "build" ninja -C build/engine
if [[ -x build/engine/tests/communicate_tests ]]; then
  step "communicators" build/engine/tests/communicate_tests
fi
step "logits on the GPU" python3 -m pytest -q -n 8 tests/engine/test_gpu_logits.py "$@"
echo "--- results"
printf '%s\n' "${table[@]}"
exit $status
