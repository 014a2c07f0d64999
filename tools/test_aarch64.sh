#!/usr/bin/env bash
# Builds Nibble for 64-bit ARM and runs its tests in emulation (qemu-user), on any Debian machine.
#
#   tools/test_aarch64.sh [--all] [CTEST-ARGUMENT ...]
#
# Without --all: what depends on the processor, that is core, formats and ops. The emulator has every
# instruction set (-cpu max), so all variants run; how fast they are it doesn't say.
#
# The last line counts the test cases: "N passed, N failed, N skipped".
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=build/aarch64
targets=(core_test formats_test ops_test packed_test)
selection=(-R '^(core|formats|ops|packed)_test\.')
if [[ ${1:-} == --all ]]; then
  shift
  targets=(all)
  # Kills the program after so many milliseconds until it has ended by itself once: hours in emulation.
  selection=(-E 'KilledAtAnyMomentItResumesToTheSameBytes')
fi

build() {
  tools/aarch64_sysroot.sh &&
    cmake --preset aarch64 "${flags[@]}" &&
    cmake --build "$folder" --parallel "${NIBBLE_JOBS:-$(nproc)}" --target "${targets[@]}"
}

read -ra flags <<<"${NIBBLE_CMAKE_FLAGS:-}"
if ! build; then
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
fi
exec tools/run_ctest.sh "$folder" "${selection[@]}" "$@"
