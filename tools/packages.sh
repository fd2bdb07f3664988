#!/usr/bin/env bash
# Builds the release twice, from the same commit in two places, and compares the bytes; looks into the packages; installs the .deb and the .rpm in a
# copy of this system that is thrown away, runs what they install as the users that they make, and removes them again.
#
#   tools/packages.sh [--cold]      --cold: the second build compiles everything anew
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
for need in rpm systemd-analyze deb-systemd-helper; do
    command -v "$need" >/dev/null || missing="${missing:-}$need "
done
if [ "$(id -u)" != 0 ] || [ -n "${missing:-}" ] || ! unshare -m true 2>/dev/null; then
    [ "${BC_TEST_REQUIRE:-}" != all ] || { echo "packages: needs root, mount namespaces and ${missing:-nothing else}" >&2; exit 1; }
    echo "NOT RUN: needs root, dpkg, rpm, systemd and postgresql: installing the packages"
    echo "packages: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
passed=0
ok() { passed=$((passed + 1)); echo "ok: $*"; }
fail() { echo "packages: $*" >&2; echo "packages: $passed passed, 1 failed" >&2; exit 1; }

tmp=$(mktemp -d /tmp/bc-packages-XXXXXX)
cleanup() {
    for tree in "$tmp/a" "$tmp/elsewhere/b"; do git worktree remove --force "$tree" 2>/dev/null || true; done
    rm -rf "$tmp"
}
trap cleanup EXIT

# The commit as it is, or one that holds the work tree's changes; nothing of the repository moves.
cp "$(git rev-parse --git-path index)" "$tmp/index"
export GIT_INDEX_FILE=$tmp/index
git add -A
tree=$(git write-tree)
unset GIT_INDEX_FILE
commit=$(git rev-parse HEAD)
[ "$tree" = "$(git rev-parse 'HEAD^{tree}')" ] || commit=$(GIT_AUTHOR_DATE=@1790000000 GIT_COMMITTER_DATE=@1790000000 GIT_AUTHOR_NAME=t \
    GIT_AUTHOR_EMAIL=t@example.org GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.org git commit-tree -p HEAD -m packages "$tree")
checkout() {
    git worktree add --quiet --detach "$1" "$commit"
    ln -s "$root/node_modules" "$1/node_modules"
    ln -s "$root/console/node_modules" "$1/console/node_modules"
    mkdir -p "$1/bin/tools"
}
checkout "$tmp/a"
mkdir -m 0700 "$tmp/elsewhere"
checkout "$tmp/elsewhere/b"
cp -r console/dist/. "$tmp/a/console/dist/"
[ -f "$tmp/a/console/dist/index.html" ] || fail "the console is not built: just console"
(cd "$tmp/a" && tools/release.sh)
(
    cd "$tmp/elsewhere/b"
    [ "${1:-}" != --cold ] || export GOCACHE=$tmp/cache
    export TZ=Asia/Tokyo LC_ALL=C.UTF-8 HOME=$tmp/elsewhere GOPATH=${GOPATH:-$(go env GOPATH)} GOCACHE=${GOCACHE:-$(go env GOCACHE)}
    umask 077
    (cd console && npm run --silent build >/dev/null)
    tools/release.sh
)
cmp "$tmp/a/dist/SHA256SUMS" "$tmp/elsewhere/b/dist/SHA256SUMS" || fail "the same commit gave other bytes (is console/dist of this commit? just console): $(diff "$tmp/a/dist/SHA256SUMS" "$tmp/elsewhere/b/dist/SHA256SUMS")"
ok "the same commit gives the same bytes in another place, with another time zone, home and umask, its console built anew"

dist=$tmp/a/dist
arch=$(go env GOARCH)
for program in better-compute bcd; do
    go version -m "$dist/linux-$arch/$program" | grep -q 'build.CGO_ENABLED=0' || fail "$program is built with cgo"
    ! readelf -lW "$dist/linux-$arch/$program" | grep -q INTERP || fail "$program is not static"
    "$dist/linux-$arch/$program" --version 2>/dev/null | grep -q '0\.\|[1-9]\.' || "$dist/linux-$arch/$program" version | grep -q "$(git rev-parse --short=12 "$commit")" ||
        fail "$program doesn't say which version it is"
done
go version -m "$dist/linux-$arch/bcd-nvml" | grep -q 'build.CGO_ENABLED=1' || fail "bcd-nvml is built without cgo"
"$dist/linux-$arch/better-compute" version -o json | grep -q "\"revision\": *\"$commit\"" || fail "the program doesn't know its commit"
! grep -rlE "$root|$tmp" "$dist/linux-$arch" || fail "a path of this machine is in it"
ok "the programs are static, bcd-nvml is not, and they know their version and commit and no path of where they were built"

# There may be no builder of images here, so what the container file says is looked at.
file=deploy/Containerfile
grep -qx 'ARG BASE=scratch' $file && [ "$(grep -c ^FROM $file)" = 1 ] && grep -qx 'FROM ${BASE}' $file || fail "$file names another image"
grep -qE '^USER [1-9][0-9]*:[1-9][0-9]*$' $file || fail "$file runs as root"
while read -r from; do
    [ -e "${from/'${DIR}'/$dist/linux-$arch}" ] || fail "$file copies $from, which a release doesn't make"
done < <(sed -nE 's/^COPY (--[^ ]+ )*([^ ]+) .*/\2/p' $file)
ok "the container file starts from nothing, runs as a user without rights and copies what the release makes"

unshare -m --propagation private tools/packages-inside.sh "$tmp" || fail "see above"
passed=$((passed + $(cat "$tmp/passed")))
echo "packages: $passed passed, 0 failed"
