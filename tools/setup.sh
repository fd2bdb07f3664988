#!/usr/bin/env bash
# npm ci where the packages are not those of the lock file. Never npm install: what runs is what was committed.
set -euo pipefail
cd "$(dirname "$0")/.."
for dir in . console; do
    [ -f "$dir/package-lock.json" ] || continue
    if [ ! -f "$dir/node_modules/.package-lock.json" ] || [ "$dir/package-lock.json" -nt "$dir/node_modules/.package-lock.json" ]; then
        (cd "$dir" && npm ci --no-audit --no-fund --loglevel=error)
        touch "$dir/node_modules/.package-lock.json"
    fi
done
