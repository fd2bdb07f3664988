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

# The server in it, on a PostgreSQL beside it that listens on a socket alone: it becomes ready, its keys are in the volume, and SIGTERM ends it.
bins=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1 || true)
as_postgres() { if [ "$(id -u)" = 0 ]; then setpriv --reuid postgres --regid postgres --clear-groups "$@"; else "$@"; fi; }
serve() {
    local sockets=$store/sockets port url server code=0
    mkdir -m 0777 "$sockets"
    chmod 0711 "$store"
    as_postgres "$bins/initdb" -D "$sockets/data" -A trust -U bc >/dev/null
    as_postgres "$bins/pg_ctl" -D "$sockets/data" -w -l "$sockets/log" -o "-c listen_addresses='' -k $sockets" start >/dev/null
    # shellcheck disable=SC2064 # this directory, whatever the name means later
    trap "as_postgres '$bins/pg_ctl' -D '$sockets/data' -m immediate stop >/dev/null 2>&1 || true; buildah rm --all >/dev/null 2>&1 || true; rm -rf '$store'" EXIT
    as_postgres "$bins/createdb" -h "$sockets" -U bc bc
    port=$((20000 + RANDOM % 20000))
    buildah run -v "$sockets:/sockets" "$container" -- /usr/bin/better-compute serve --data-dir /var/lib/better-compute \
        --database-url "postgres:///bc?host=/sockets&user=bc" --listen "127.0.0.1:$port" --gateway-listen "127.0.0.1:$((port + 1))" \
        >"$store/serve.log" 2>&1 &
    server=$!
    url=http://127.0.0.1:$port
    for _ in $(seq 300); do
        curl -fsS -o /dev/null "$url/readyz" 2>/dev/null && break
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    check ready ready "$(curl -fsS "$url/readyz" 2>/dev/null | sed -E 's/.*"status":"([a-z]+)".*/\1/' || true)"
    check "the console" 200 "$(curl -s -H "Accept: text/html" -o /dev/null -w '%{http_code}' "$url/")"
    check "the keys' owner" 10001:600 "$(find "$store/root" -name admin.token -printf '%U:%m\n')"
    kill -TERM "$(pgrep -f "^/usr/bin/better-compute serve .*127.0.0.1:$port ")" || true
    wait "$server" || code=$?
    check "its end" 0 "$code"
    [ "$failed" = 0 ] || tail -n 20 "$store/serve.log" >&2
}
if [ "$skipped" = 1 ] || [ -z "$bins" ]; then
    skipped=$((skipped + 4))
    echo "image: NOT RUN: serve needs to run it, and PostgreSQL: apt-get install postgresql" >&2
else
    serve
fi
echo "image: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
