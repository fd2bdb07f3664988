#!/usr/bin/env bash
# Generates into the work tree and compares with what stood there before, so that it also works with changes not yet committed.
set -euo pipefail
cd "$(dirname "$0")/.."
sums() { git ls-files -z -- go.mod go.sum '*.pb.go' 'graph/**' 'console/src/gql/**' schema.graphqls gqlgen.yml cli/events.graphql docs/events.md | xargs -0 -r sha256sum; }
go mod tidy -diff
before=$(sums)
"$JUST" --no-deps generate
after=$(sums)
if [ "$before" != "$after" ]; then
    diff <(echo "$before") <(echo "$after") | grep '^[<>]' || true
    echo "check-generated: 'just generate' changes these files; commit what it makes" >&2
    exit 1
fi
echo "check-generated: 1 passed, 0 failed"
