#!/usr/bin/env bash
# Makes the programs for arm64 and runs them in an emulator, far enough to know that they start: what a release for arm64 holds was run once, also
# where no such machine is at hand. Needs qemu-user-static.
set -euo pipefail
cd "$(dirname "$0")/.."
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || { echo "arm64: 0 passed, 0 failed, 2 skipped: apt-get install qemu-user-static"; exit 0; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build -trimpath -o "$dir/" ./cmd/better-compute ./cmd/bcd
passed=0 failed=0
for call in 'better-compute version' 'bcd --version'; do
    read -r program argument <<<"$call"
    # The emulator runs nothing but programs for arm64.
    if text=$("$emulator" "$dir/$program" "$argument" 2>&1) && [[ $text == "$program "* ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "arm64: $call says: $text" >&2
    fi
done
echo "arm64: $passed passed, $failed failed"
[ "$failed" = 0 ]
