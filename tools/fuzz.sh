#!/usr/bin/env bash
# Runs every fuzz target for the time given (default 20 s); a finding stays as a file under the package's testdata/fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
ran=0
while IFS=: read -r file target; do
    echo "==> $target in $(dirname "$file")"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${1:-20s}" "./$(dirname "$file")"
    ran=$((ran + 1))
done < <(git ls-files -co --exclude-standard '*_test.go' | xargs grep -HoE '^func Fuzz[A-Za-z0-9_]+' | sed 's/:func /:/')
[ "$ran" -gt 0 ] || { echo "no fuzz target found" >&2; exit 1; }
echo "fuzz: $ran passed, 0 failed"
