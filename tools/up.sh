#!/usr/bin/env bash
# Starts the control plane on this machine and joins the machine to it. A second run goes on where the first stopped: the same data,
# the same node. Ends with Ctrl-C; the node then shows DISCONNECTED, and nothing of it is lost.
#
# Settings: DATA_DIR and BCD_DIR (where the two keep their state), LISTEN and GATEWAY_LISTEN (addresses). Arguments go to serve.
set -euo pipefail
cd "$(dirname "$0")/.."

# On a terminal Ctrl-C is for this script alone: whoever called it, as npx and just, would end with an error of their own.
if [ -t 0 ] && [ -z "${UP_CALLER:-}" ]; then
    set -m
    UP_CALLER=$$ tools/up.sh "$@"
    exit
fi

if [ "$(id -u)" = 0 ]; then
    data=${DATA_DIR:-/var/lib/better-compute} bcd=${BCD_DIR:-/var/lib/bcd}
else
    data=${DATA_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/better-compute} bcd=${BCD_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/bcd}
fi
listen=${LISTEN:-127.0.0.1:8080} gateway=${GATEWAY_LISTEN:-127.0.0.1:8443}
better_compute() { bin/better-compute "$@" --server "http://$listen" --token-file "$data/admin.token"; }

pids=()
stop() {
    trap - EXIT
    trap '' INT TERM # npx and just each pass a signal on: the second one must not end this script before what it started
    local i
    for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
        kill -TERM "${pids[$i]}" 2>/dev/null || true
        wait "${pids[$i]}" 2>/dev/null || true
    done
}
trap stop EXIT
trap 'stop; exit 0' INT
trap 'stop; exit 130' TERM
if [ -n "${UP_CALLER:-}" ]; then
    # It is in a group of processes of its own, so it must see for itself when its caller was ended.
    (while kill -0 "$UP_CALLER" 2>/dev/null; do sleep 1; done; kill -TERM $$) &
    pids+=($!)
fi

mkdir -p bin/log
# What is started from here on is in groups of processes of its own: Ctrl-C reaches this script, which ends them one after another, and not each of
# them as well, for which the second signal would be the order to drop everything.
set -m
bin/better-compute serve --data-dir "$data" --listen "$listen" --gateway-listen "$gateway" "$@" 2>bin/log/serve.log &
server=$!
pids+=("$server")
ready() { node -e 'fetch(process.argv[1]).then(r => process.exit(r.ok ? 0 : 1), () => process.exit(1))' "http://$listen/readyz"; }
until ready; do
    kill -0 "$server" 2>/dev/null || { tail -n 5 bin/log/serve.log >&2; wait "$server"; exit 1; }
    sleep 0.2
done

join() {
    local token
    token=$(better_compute join-tokens create --tenant default --pool default -o json) || return
    field() { node -p "JSON.parse(require('fs').readFileSync(0)).$1" <<<"$token"; }
    mkdir -p "$bcd"
    chmod 0700 "$bcd"
    cat >"$bcd/config.toml" <<TOML
server = "$gateway"
ca_fingerprint = "$(field caFingerprint)"
state_dir = "$bcd/state"

[join]
attestor = "token"
token_file = "-"
TOML
    field secret | bin/bcd join --config "$bcd/config.toml"
}
if bin/bcd status --config "$bcd/config.toml" >/dev/null 2>&1; then
    sed -i "s|^server = .*|server = \"$gateway\"|" "$bcd/config.toml"
else
    join
fi

started=$(date -u +%FT%T)
bin/bcd run --config "$bcd/config.toml" 2>bin/log/bcd.log &
pids+=($!)

# session STATE...: waits until this bcd run says one of them, for 10 s at most; what it says is in $state.
session() {
    local end=$((SECONDS + 10)) now="const s = JSON.parse(require('fs').readFileSync(0)); s.running && s.session?.since > '$started' ? s.session.state : ''"
    while [ "$SECONDS" -lt "$end" ]; do
        state=$(bin/bcd status --config "$bcd/config.toml" -o json 2>/dev/null | node -p "$now") || state=''
        [[ -z "$state" || " $* " != *" $state "* ]] || return 0
        sleep 0.2
    done
    return 1
}
# A certificate lasts a day: a machine that was off for longer is refused, and joins anew as the same node.
session CONNECTED REFUSED || true
if [ "$state" = REFUSED ] && join; then session CONNECTED || true; fi
node='This machine is a node now.'
[ "$state" = CONNECTED ] || node="This machine has no session; \`bin/bcd status --config $bcd/config.toml\` says why."

# Without these the command line finds the server by its default directory.
as=''
[ -z "${DATA_DIR:-}${LISTEN:-}" ] || as=" --server http://$listen --token-file $data/admin.token"
cat <<END

$node In another terminal:

    bin/better-compute nodes list --tenant default$as
    bin/better-compute sign-in$as       # a link for the console

Logs are in bin/log. Ctrl-C stops all of it; the same command goes on where it stopped.
END
wait "$server"
