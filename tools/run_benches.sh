#!/usr/bin/env bash
# Runs each bench of a build folder (configured with -DNIBBLE_BUILD_BENCH=ON) for about a second, to see that it
# still works. Its figures mean nothing then.
#
#   tools/run_benches.sh BUILD-FOLDER
#
# The last line counts the benches: "N passed, N failed, N skipped".
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
folder=${1:?run_benches.sh: name the build folder}
passed=0
failed=0
skipped=0

# Sets the words with which a bench runs for a second.
words_of() {
  case $1 in
    cpu_kernels_bench) words=(--rounds 1 --cold 1) ;;
    packed_linear_bench) words=(--rounds 1 --cold 1 --tokens "1,16" --shapes out) ;;
    sparse_linear_bench) words=(--rounds 1 --cold 1 --tokens "1,5" --shapes 512x2048) ;;
    float_linear_bench) words=(--rounds 1 --cold 1 --shapes out) ;;
    encoder_cpu_bench) words=(tests/families/bert --rounds 1 --shapes 1x8) ;;
    cuda_linear_bench) words=(int8-row) ;;
    cuda_dense_bench) words=(f16) ;;
    cuda_sparse_bench) words=(o) ;;
    cuda_kept_bench) words=(64x4096x4096) ;;
    cuda_chain_bench) words=(1024x2816x3072) ;;
    cuda_trellis_bench) words=(1x4096x4096) ;;
    cuda_gemm_bench) words=(--few w4a16-g128 48x14336x4096) ;;
    cuda_packed_attention_bench) words=(1x32) ;;
    cuda_rows_bench) words=(rows) ;;
    cuda_sums_bench | cuda_sent_sums_bench) words=() ;;
    *) return 1 ;;
  esac
}

fail() {
  echo "FAILED: $*"
  failed=$((failed + 1))
}

# A program as two ranks of this host, a GPU for each.
on_two_gpus() {
  local rank status=0 pids=()
  for rank in 0 1; do
    SLURM_JOB_ID=bench-$$ RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 timeout 120 "$@" &
    pids+=($!)
  done
  for rank in "${pids[@]}"; do
    wait "$rank" || status=1
  done
  return $status
}

run() {
  local name=$1 program=$folder/bench/$1 words=()
  echo "-- $name"
  if ! words_of "$name"; then
    fail "tools/run_benches.sh does not know how $name runs for a second"
  elif [[ $name == cuda_* ]] && { [[ ! -x $program ]] || ! nvidia-smi -L >/dev/null 2>&1; }; then
    echo "skipped: it needs a GPU and the CUDA toolkit"
    skipped=$((skipped + 1))
  elif [[ $name == cuda_*sums_bench ]] && (($(nvidia-smi -L | wc -l) < 2)); then
    echo "skipped: it needs two GPUs"
    skipped=$((skipped + 1))
  elif [[ $name == cuda_*sums_bench ]]; then
    if on_two_gpus "$program"; then passed=$((passed + 1)); else fail "$program on two GPUs"; fi
  elif timeout 120 "$program" "${words[@]}"; then
    passed=$((passed + 1))
  else
    fail "$program ${words[*]}"
  fi
}

for source in bench/*_bench.c*; do
  run "$(basename "${source%.*}")"
done
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0 && passed > 0))
