#!/usr/bin/env bash
# Runs every fuzz target, or those whose name is given, each for a while (20 s unless said); a finding stays as a file under the package's
# testdata/fuzz, where it is a test from then on. Seeds and findings run in every `just unit`.
#
#   tools/fuzz.sh [TIME] [TARGET…]      FUZZ_PARALLEL: how many workers, one for each processor unless said
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-20s}
[ $# = 0 ] || shift
ran=0 failed=0
while IFS=: read -r file target; do
    [ $# = 0 ] || [[ " $* " == *" $target "* ]] || continue
    echo "==> $target in $(dirname "$file")"
    # One finding keeps nobody from the next target.
    if go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" ${FUZZ_PARALLEL:+-parallel "$FUZZ_PARALLEL"} "./$(dirname "$file")" </dev/null; then
        ran=$((ran + 1))
    else
        failed=$((failed + 1))
    fi
done < <(git ls-files -co --exclude-standard '*_test.go' | xargs grep -HoE '^func Fuzz[A-Za-z0-9_]+' | sed 's/:func /:/')
[ $((ran + failed)) -gt 0 ] || { echo "no such fuzz target" >&2; exit 1; }
echo "fuzz: $ran passed, $failed failed"
[ "$failed" = 0 ]
