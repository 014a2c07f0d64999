#!/usr/bin/env bash
# Installs what is needed, builds Nibble with its tests and runs them all.
#
#   tools/test.sh [CTEST-ARGUMENT ...]     ("-R safetensors" runs the tests of that name)
#
# The last line counts the test cases: "N passed, N failed, N skipped".
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${NIBBLE_PRESET:-release}
if ! tools/build.sh "$preset"; then
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
fi
exec tools/run_ctest.sh "build/$preset" "$@"
