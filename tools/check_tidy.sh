#!/usr/bin/env bash
# Runs clang-tidy 14 with the checks of .clang-tidy.
#
#   tools/check_tidy.sh                   all sources of build/release but the tests
#   tools/check_tidy.sh --changed [BASE]  sources that differ from BASE (default: HEAD)
#   tools/check_tidy.sh FILE ...
#
# Sources are read without GCC's precompiled headers: each must include what it uses.
#
# NIBBLE_BUILD names another build folder (it must hold compile_commands.json), NIBBLE_JOBS how many run
# side by side.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${NIBBLE_BUILD:-build/release}
clang_tidy=$(command -v clang-tidy-14 || command -v clang-tidy || true)
if [[ -z $clang_tidy ]]; then
  echo "check_tidy.sh: needs clang-tidy (tools/install_dependencies.sh --checks installs it)" >&2
  exit 2
fi
if [[ ! -f $build/compile_commands.json ]]; then
  echo "check_tidy.sh: $build/compile_commands.json is missing; configure first (cmake --preset release)" >&2
  exit 2
fi

case ${1:-} in
  --changed) mapfile -t files < <(git diff --name-only --diff-filter=d "${2:-HEAD}" -- 'src/*.cpp' ':!*_test.cpp') ;;
  "") mapfile -t files < <(find src -name '*.cpp' ! -name '*_test.cpp' | sort) ;;
  *) files=("$@") ;;
esac

# Only files that this build compiles: those of absent back ends have no flags.
compiled=()
for file in "${files[@]}"; do
  if grep -q "/$file\"" "$build/compile_commands.json"; then
    compiled+=("$file")
  fi
done
if ((${#compiled[@]} == 0)); then
  echo "tidy: nothing to check"
  exit 0
fi

commands=$(mktemp -d)
trap 'rm -rf "$commands"' EXIT
sed -E 's/ -Winvalid-pch -include [^ ]+cmake_pch\.hxx| --param=ggc-[^ ]+//g' "$build/compile_commands.json" >"$commands/compile_commands.json"

status=0
printf '%s\0' "${compiled[@]}" |
  xargs -0 -n 1 -P "${NIBBLE_JOBS:-$(nproc)}" "$clang_tidy" -p "$commands" --quiet --extra-arg=-Wno-unknown-warning-option 2>/dev/null || status=1
if ((status != 0)); then
  echo "tidy: ${#compiled[@]} files checked; the faults stand above"
  exit 1
fi
echo "tidy: ${#compiled[@]} files checked, nothing to object to"
