#!/usr/bin/env bash
# On a host with a GPU: builds the engine, and runs what must be proven there: communicators over Gloo and NCCL with several ranks
# on one GPU, logits against transformers, deterministic mode. Prints a short table last.
#
#   scripts/gpu_engine_check.sh [PYTEST_ARGUMENTS...]
#
# CARRIED=FOLDER: its include/ has pcre2.h, where this host lacks it.
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
carried=${CARRIED:-}
options=("-DMUSTER_TORCH=$torch")
if [[ -n $carried ]]; then options+=("-DPCRE2_INCLUDE=$(readlink -f "$carried")/include"); fi
step "configure" cmake --preset engine "${options[@]}"
step "build" ninja -C build/engine muster muster-worker communicate_tests kernels_tests tensor_tests logits_driver bench_score_bench \
  bench_generate_bench bench_packed_product_bench
# Real NCCL with several ranks on one GPU wants every rank to look like another host.
step "communicators" env NCCL_NET=Socket NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=lo NCCL_MAX_NCHANNELS=1 NCCL_MAX_CTAS=1 \
  timeout 240 build/engine/tests/communicate_tests --gtest_brief=1
step "kernels" build/engine/tests/kernels_tests --gtest_brief=1
step "operations" build/engine/tests/tensor_tests --gtest_brief=1
step "doctor" build/engine/apps/cli/muster doctor
step "first token" python3 bench/generate/first_token_peer.py --program build/engine/apps/cli/muster --device cuda
step "scoring" python3 bench/generate/score_peer.py --program build/engine/bench/generate/score_bench --device cuda:0 \
  --dtype bfloat16 --length 1024 --batches 8
step "generation" python3 scripts/gpu_generate_check.py --program build/engine/apps/cli/muster
step "training" python3 scripts/gpu_train_check.py --program build/engine/apps/cli/muster
step "saving" python3 scripts/gpu_train_check.py --program build/engine/apps/cli/muster --large
step "speed" python3 bench/generate/generate_peer.py --program build/engine/bench/generate/generate_bench --device cuda:0 \
  --dtype bfloat16 --threads 16 --shapes qwen2.5-0.5b qwen2.5-7b --batches 1 64 --repeats 2 --peer-repeats 1
step "packed weights" python3 scripts/gpu_packed_check.py --parts tests products
step "logits on the GPU" python3 -m pytest -q tests/peer/logits/test_gpu_logits.py "$@"
echo "--- results"
printf '%s\n' "${table[@]}"
exit $status
