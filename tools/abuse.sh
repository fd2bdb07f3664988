#!/usr/bin/env bash
# Lets hostile clients loose on a server process in the full sizes, on a machine where nothing else runs: others' latency may at most double. Needs about
# 12,000 open files. just abuse [NAME]
set -euo pipefail
cd "$(dirname "$0")/.."
BC_ABUSE=full exec go test -count=1 -v -parallel 1 -timeout 20m -run "${1:-.}" ./e2e/abuse
