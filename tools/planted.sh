#!/usr/bin/env bash
# Shows that the import rules of .golangci.yml bite: a tree of empty rooms, with imports that the order allows and imports that it
# refuses. Each refused one must be found, and none of the allowed ones.
set -euo pipefail
cd "$(dirname "$0")/.."
module=$(go list -m)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cp go.mod go.sum .golangci.yml "$tree/"
mkdir "$tree/tools"
cp tools/go.mod tools/go.sum "$tree/tools/"

rooms="fault id db db/dbtest events iam node pki pki/issuer placement commands liveness health controls graph gateway gateway/wire jobs console cli agent sim cmd/bcd"
for room in $rooms; do
    mkdir -p "$tree/$room"
    echo "package ${room##*/}" >"$tree/$room/room.go"
done

# plant KIND ROOM IMPORT: each importer is a package of its own below its room, so that the imports make no cycle. A path with a dot is
# somebody else's.
plant() {
    local path=$3 name=$1_$(tr './-' '___' <<<"$3")
    case "$path" in *.*) ;; *) path=$module/$path ;; esac
    mkdir -p "$tree/$2/$name"
    printf 'package %s\n\nimport _ "%s"\n' "$name" "$path" >"$tree/$2/$name/planted${4:-}.go"
}
allowed=(
    "id fault" "db id" "events db" "iam events" "node iam" "pki node" "placement pki" "commands placement" "liveness placement"
    "health liveness" "health commands" "controls health" "controls fault" "graph controls" "gateway gateway/wire" "jobs controls"
    "agent gateway/wire" "pki gateway/wire" "pki/issuer pki" "pki/issuer github.com/smallstep/certificates/cas/softcas" "agent fault" "sim agent" "cli fault" "cli id" "cmd/bcd agent" "cmd/bcd graph" "graph github.com/99designs/gqlgen/graphql"
    "jobs github.com/riverqueue/river" "controls github.com/riverqueue/river" "db github.com/riverqueue/river/rivermigrate"
)
refused=(
    "fault id" "id db" "db events" "events iam" "iam node" "node pki" "node controls" "pki placement" "pki gateway" "placement commands"
    "commands liveness" "liveness commands" "liveness health" "health controls" "controls graph" "controls jobs" "node gateway"
    "graph jobs" "graph gateway" "graph console" "gateway graph" "gateway agent" "jobs graph" "console graph" "console fault" "cli graph" "cli agent" "cli node" "cli db" "cli controls" "cli placement"
    "agent db" "agent node" "agent pki" "agent controls" "agent gateway" "agent iam" "agent sim" "sim gateway" "sim graph"
    "node github.com/99designs/gqlgen/graphql" "cmd/bcd github.com/99designs/gqlgen/graphql" "iam github.com/riverqueue/river"
    "graph github.com/riverqueue/river" "controls github.com/riverqueue/river/rivermigrate" "controls github.com/stretchr/testify/require"
    "node db/dbtest" "pki github.com/smallstep/certificates/cas" "pki/issuer github.com/smallstep/certificates/policy" "pki/issuer github.com/smallstep/certificates/errs" "agent go.step.sm/crypto/x509util"
)
for pair in "${allowed[@]}"; do plant allowed $pair; done
for pair in "${refused[@]}"; do plant refused $pair; done
plant allowed node db/dbtest _test

found=$(cd "$tree" && go tool -modfile=tools/go.mod golangci-lint run --enable-only depguard --max-issues-per-linter 0 --max-same-issues 0 \
    --output.text.colors=false ./... 2>"$tree/stderr" | grep -E '\(depguard\)$' || true)
if [ -z "$found" ]; then
    cat "$tree/stderr" >&2
fi
bad=0
while read -r file; do
    echo "an allowed import was refused: $file" >&2
    bad=1
done < <(grep -E '^[a-z/]+/allowed_[^:]*' -o <<<"$found" | sort -u)
for file in $(cd "$tree" && find . -path '*/refused_*.go' | sed 's|^\./||' | sort); do
    grep -q "^$file:" <<<"$found" || { echo "a refused import was not found: $file" >&2; bad=1; }
done
[ "$bad" = 0 ]
echo "import rules: $(( ${#allowed[@]} + 1 + ${#refused[@]} )) passed, 0 failed"
