#!/usr/bin/env bash
# Installs the dependencies, configures a preset and builds it.
#
#   tools/build.sh PRESET [TARGET ...]     without targets: everything
#
# NIBBLE_CMAKE_FLAGS holds more flags for the configuration ("-DNIBBLE_WERROR=ON").
# NIBBLE_JOBS is the number of compilers that run side by side (default: the processors).
set -euo pipefail

if (($# == 0)); then
  echo "build.sh: name a preset: release, debug, asan, tsan" >&2
  exit 2
fi
preset=$1
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
read -ra flags <<<"${NIBBLE_CMAKE_FLAGS:-}"
needs=()
if [[ " ${flags[*]} " == *" -DNIBBLE_BUILD_TESTS=OFF "* ]]; then
  needs=(--no-tests)
fi
tools/install_dependencies.sh "${needs[@]}"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "Configuring build/$preset"
if ! cmake --preset "$preset" "${flags[@]}" >"$log" 2>&1; then
  cat "$log" >&2
  echo "build.sh: the configuration failed; its output stands above" >&2
  exit 1
fi

targets=()
if (($# > 0)); then
  targets=(--target "$@")
fi
echo "Building ${*:-everything} in build/$preset"
cmake --build "build/$preset" --parallel "${NIBBLE_JOBS:-$(nproc)}" "${targets[@]}"
