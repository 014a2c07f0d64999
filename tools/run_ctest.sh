#!/usr/bin/env bash
# Runs the tests of a build folder (or of one folder in it) and counts them.
#
#   tools/run_ctest.sh BUILD-FOLDER [CTEST-ARGUMENT ...]
#
# The last line is "N passed, N failed, N skipped"; the status is 0 when something ran and nothing failed.
set -euo pipefail

folder=$1
shift
report=$(mktemp)
trap 'rm -f "$report"' EXIT

# Many tests wait (for servers, for files): more of them than processors keep these busy.
arguments=(--test-dir "$folder" --parallel "${NIBBLE_JOBS:-$((2 * $(nproc)))}" --output-on-failure
  --no-tests=error --output-junit "$report")
if [[ -t 1 ]]; then
  arguments+=(--progress)
fi
# Tests write many small files; memory is the right place for them.
if [[ -z ${TMPDIR:-} && -w /dev/shm && $(df --output=avail -k /dev/shm | tail -n 1) -gt 1000000 ]]; then
  export TMPDIR=/dev/shm
fi
echo "Testing in $folder"
status=0
ctest "${arguments[@]}" "$@" </dev/null || status=$?

# One number of the report's <testsuite ...> element; 0 when there is none.
count() {
  local value
  value=$(grep -o -m 1 "\b$1=\"[0-9]*\"" "$report" | head -n 1 | tr -dc '0-9' || true)
  echo "${value:-0}"
}

total=$(count tests)
failed=$(count failures)
skipped=$(($(count skipped) + $(count disabled)))
# ctest can also fail as a whole (no tests, a broken build folder): that counts as one failure.
if ((status != 0 && failed == 0)); then
  failed=1
  total=$((total + 1))
fi
echo "$((total - failed - skipped)) passed, $failed failed, $skipped skipped"
((failed == 0 && status == 0))
