#!/usr/bin/env bash
# Formats the C++ sources with clang-format 14, the version of Debian 12 (others break lines differently).
#
#   tools/format.sh            rewrites the files
#   tools/format.sh --check    only names the files that differ, and fails
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
clang_format=$(command -v clang-format-14 || command -v clang-format || true)
if [[ -z $clang_format ]] || [[ $("$clang_format" --version) != *"version 14."* ]]; then
  echo "format.sh: needs clang-format 14 (tools/install_dependencies.sh --checks installs it)" >&2
  exit 2
fi

mapfile -d '' files < <(find src tests bench include examples -type f \( -name '*.h' -o -name '*.c' -o -name '*.cpp' -o -name '*.inc' -o -name '*.cu' -o -name '*.cuh' \) -print0)
if [[ ${1:-} != --check ]]; then
  "$clang_format" -i "${files[@]}"
  exit 0
fi

# Many files at a time; a file that differs gives a line.
differs() {
  local file
  for file in "$@"; do
    "$clang_format" --dry-run --Werror "$file" 2>/dev/null || echo "$file: not formatted"
  done
}
export -f differs
export clang_format
differing=$(printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 50 bash -c 'differs "$@"' differs)
bad=0
if [[ -n $differing ]]; then
  echo "$differing"
  bad=$(wc -l <<<"$differing")
fi
if ((bad > 0)); then
  echo "format: $bad of ${#files[@]} files differ; tools/format.sh mends them"
  exit 1
fi
echo "format: ${#files[@]} files are as they should be"
