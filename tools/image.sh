#!/usr/bin/env bash
# Builds the container image from what `just release` made, without a network, and looks at it: its user, what is in it, and that the program in it
# runs. Needs buildah; in a sandbox that allows no namespaces it builds as it can, and says what it could not run.
#
#   tools/image.sh [DIR]      dist/linux-<this architecture> unless said
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:-dist/linux-$(go env GOARCH)}
[ -x "$dir/better-compute" ] || { echo "image: $dir/better-compute is not there: just release" >&2; exit 1; }
command -v buildah >/dev/null || { echo "image: 0 passed, 0 failed, 3 skipped: apt-get install buildah"; exit 0; }
store=$(mktemp -d)
buildah() { command buildah --root "$store/root" --runroot "$store/run" --storage-driver vfs "$@"; }
image=better-compute-$$
trap 'buildah rm --all >/dev/null 2>&1 || true; rm -rf "$store"' EXIT
export BUILDAH_ISOLATION=chroot
context=$store/context
mkdir -p "$context/program"
cp -r "$dir/better-compute" "$context/program/"
mkdir -p "$context/program/image-data"
buildah build -q --network none -f deploy/Containerfile --build-arg DIR=program -t "$image" "$context" >/dev/null
passed=0 failed=0 skipped=0
check() { # WHAT WANTED GOT
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "image: $1: wanted '$2', got '$3'" >&2
    fi
}
check user 10001:10001 "$(buildah inspect --type image --format '{{.OCIv1.Config.User}}' "$image")"
container=$(buildah from --pull-never "localhost/$image")
root=$(buildah mount "$container")
check files "/usr/bin/better-compute" "$(cd "$root" && find . -type f -printf '/%P\n')"
check "the data's owner" 10001:10001 "$(stat -c %u:%g "$root/var/lib/better-compute")"
if text=$(buildah run --network none "$container" -- /usr/bin/better-compute version 2>"$store/err"); then
    check version better-compute "${text%% *}"
else
    skipped=1
    echo "image: NOT RUN: $(tr "\n" " " <"$store/err")" >&2
fi
echo "image: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
