#!/usr/bin/env bash
# The part of tools/packages.sh that installs: in a mount namespace of its own, on a copy of this system that only lives in memory. Its argument is
# the scratch folder, with the packages in a/dist.
set -euo pipefail
tmp=$1
dist=$tmp/a/dist
passed=0
ok() { passed=$((passed + 1)); echo "$passed" >"$tmp/passed"; echo "ok: $*"; }
fail() { echo "packages: $*" >&2; exit 1; }

mkdir -p "$tmp/layers"
mount -t tmpfs scratch "$tmp/layers"
mkdir "$tmp/layers/upper" "$tmp/layers/work" "$tmp/layers/root"
mount -t overlay scratch -o "lowerdir=/,upperdir=$tmp/layers/upper,workdir=$tmp/layers/work" "$tmp/layers/root"
system=$tmp/layers/root
mount --bind /proc "$system/proc"
mount --rbind /dev "$system/dev"
mount -t tmpfs run "$system/run"
mount -t tmpfs tmp "$system/tmp"
rm -rf "$system/var/lib/better-compute" "$system/var/lib/bcd" # what this machine itself may have of a `just up`
mkdir "$system/tmp/dist"
cp "$dist"/*.deb "$dist"/*.rpm "$system/tmp/dist/"
inside() { chroot "$system" "$@"; }

pids=()
stop() {
    local pid
    for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
}
trap stop EXIT

# service UNIT: starts what a unit starts, as its user, with its environment and without rights, in the background; its log is LOG.
service() {
    local unit=$system/usr/lib/systemd/system/$1 user words file
    user=$(sed -n 's/^User=//p' "$unit")
    file=$(sed -n 's/^EnvironmentFile=-//p' "$unit")
    # shellcheck disable=SC2016 # the unit's own variable
    words=$(sed -n 's/^ExecStart=//p' "$unit")
    if [ -n "$file" ] && [ -f "$system$file" ]; then
        # shellcheck disable=SC1090
        words=${words/'$SERVE_OPTIONS'/$(. "$system$file" && echo "$SERVE_OPTIONS")}
    fi
    inside install -d -m 0700 -o "$user" -g "$user" "/var/lib/$(sed -n 's/^StateDirectory=//p' "$unit")"
    # shellcheck disable=SC2086 # the unit's words; no function in between, so that the pid is the program's own
    chroot "$system" setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs --bounding-set -all --inh-caps -all \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 $words >"$tmp/$1.log" 2>&1 &
    pids+=($!)
}
# until WHAT, COMMAND…: the command succeeds within half a minute.
until_ok() {
    local what=$1 i
    shift
    for ((i = 0; i < 300; i++)); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.1
    done
    tail -n 20 "$tmp"/*.log >&2
    "$@" >&2 || true
    fail "$what"
}
before=$(cd "$tmp/layers/upper" && find . | sort)

inside sh -c 'DEBIAN_FRONTEND=noninteractive dpkg -i /tmp/dist/better-compute_*.deb /tmp/dist/bcd_*.deb' >"$tmp/dpkg.log" 2>&1 || { cat "$tmp/dpkg.log" >&2; fail "dpkg -i"; }
for file in /usr/bin/better-compute /usr/bin/bcd /usr/lib/systemd/system/better-compute.service /usr/lib/systemd/system/bcd.service \
    /usr/lib/sysusers.d/better-compute.conf /usr/lib/sysusers.d/bcd.conf /usr/lib/tmpfiles.d/bcd.conf /etc/default/better-compute /etc/bcd/config.toml \
    /usr/share/bash-completion/completions/{better-compute,bcd} /usr/share/zsh/vendor-completions/_{better-compute,bcd} \
    /usr/share/fish/vendor_completions.d/{better-compute,bcd}.fish /usr/share/man/man1/{better-compute,better-compute-nodes-drain,bcd,bcd-join}.1.gz \
    /usr/share/doc/{better-compute,bcd}/{copyright,changelog.gz,changelog.Debian.gz,third-party-licenses.gz}; do
    [ -f "$system$file" ] || fail "$file is missing"
done
inside dpkg --verify better-compute bcd | grep . && fail "dpkg --verify"
inside id better-compute >/dev/null && inside id bcd >/dev/null || fail "the users were not made"
[ "$(inside readlink -f /etc/systemd/system/multi-user.target.wants/bcd.service)" = /usr/lib/systemd/system/bcd.service ] || fail "bcd.service is not enabled"
[ "$(inside stat -c '%U %a' /var/lib/bcd)" = "bcd 700" ] || fail "/var/lib/bcd is $(inside stat -c '%U %a' /var/lib/bcd)"
gzip -dc "$system/usr/share/man/man1/better-compute-nodes-drain.1.gz" | grep -q '^\.TH ' || fail "the man page is none"
if inside sh -c 'command -v man' >/dev/null; then
    inside sh -c 'man -l /usr/share/man/man1/better-compute-nodes-drain.1.gz | grep -q reason' || fail "man can't read the page"
fi
inside bash -n /usr/share/bash-completion/completions/better-compute || fail "bash can't read the completion"
ok "the .deb packages install, with users, units, pages, completions, licences and changelog"

inside systemd-analyze verify --man=no /usr/lib/systemd/system/better-compute.service /usr/lib/systemd/system/bcd.service >"$tmp/verify.log" 2>&1 || { cat "$tmp/verify.log" >&2; fail "systemd-analyze verify"; }
grep -E 'better-compute|bcd' "$tmp/verify.log" && fail "systemd-analyze verify has something to say"
for unit in better-compute:20 bcd:30; do
    inside systemd-analyze security --offline=true --threshold="${unit#*:}" "/usr/lib/systemd/system/${unit%:*}.service" >"$tmp/security.log" 2>&1 ||
        { grep -E 'Overall|✗' "$tmp/security.log" >&2; fail "systemd-analyze security: ${unit%:*} is exposed more than ${unit#*:} of 100"; }
    echo "   ${unit%:*}: $(grep -o 'Overall exposure.*' "$tmp/security.log")"
done
ok "systemd-analyze finds nothing wrong with the units, and little that they are exposed to"

# As far as no init allows: the unit's own command line, as its user, without rights.
port() { node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})'; }
gateway=127.0.0.1:$(port)
echo "SERVE_OPTIONS=\"--listen 127.0.0.1:0 --gateway-listen $gateway\"" >"$system/etc/default/better-compute"
service better-compute.service
until_ok "the control plane doesn't answer" inside better-compute tenants list
[ "$(inside stat -c '%U %a' /var/lib/better-compute)" = "better-compute 700" ] || fail "/var/lib/better-compute: $(inside stat -c '%U %a' /var/lib/better-compute)"
token=$(inside better-compute join-tokens create --tenant default --pool default -o json)
field() { node -p "JSON.parse(require('fs').readFileSync(0)).$1" <<<"$token"; }
field secret | inside bcd join --server "$gateway" --ca-fingerprint "$(field caFingerprint)" --state-dir /var/lib/bcd --token-file - >/dev/null || fail "bcd join"
[ -z "$(inside find /var/lib/bcd ! -user bcd)" ] || fail "what root's join wrote is not bcd's"
service bcd.service
connected() { inside better-compute nodes list --tenant default --connectivity connected -o name | grep -q '^node_'; }
until_ok "the machine doesn't connect" connected
stop
for log in better-compute.service bcd.service; do ! grep -iE 'panic|permission denied' "$tmp/$log.log" || fail "$log"; done
pids=()
ok "what the units start runs as its own user without rights: the control plane with a database of its own, a machine that joined and connects"

inside dpkg -r better-compute bcd >"$tmp/dpkg.log" 2>&1 || { cat "$tmp/dpkg.log" >&2; fail "dpkg -r"; }
[ ! -e "$system/usr/bin/better-compute" ] && [ ! -e "$system/usr/bin/bcd" ] || fail "a program stays after removing"
[ -f "$system/var/lib/bcd/identity" ] && [ -f "$system/var/lib/better-compute/admin.token" ] && [ -f "$system/etc/default/better-compute" ] ||
    fail "removing took away what it must keep"
inside sh -c 'DEBIAN_FRONTEND=noninteractive dpkg -i /tmp/dist/better-compute_*.deb /tmp/dist/bcd-nvml_*.deb' >"$tmp/dpkg.log" 2>&1 || { cat "$tmp/dpkg.log" >&2; fail "dpkg -i, again"; }
grep -q "gateway-listen $gateway" "$system/etc/default/better-compute" || fail "an installation anew took the settings away"
inside bcd status --config /etc/bcd/config.toml >/dev/null || fail "bcd-nvml doesn't find the identity that bcd left"
ok "removing keeps data, identity and settings, and an installation anew goes on with them, bcd-nvml in the place of bcd"

inside dpkg -P better-compute bcd-nvml bcd >"$tmp/dpkg.log" 2>&1 || { cat "$tmp/dpkg.log" >&2; fail "dpkg -P"; }
grep -iE 'warning|error' "$tmp/dpkg.log" && fail "dpkg -P"
left=$(cd "$tmp/layers/upper" && find . ! -type c ! -type d ! -path './var/lib/dpkg/*' ! -path './var/log/*' ! -path './var/cache/*' ! -path './root/*' \
    ! -path './etc/passwd*' ! -path './etc/group*' ! -path './etc/shadow*' ! -path './etc/gshadow*' ! -path './etc/.pwd.lock' | sort | comm -13 <(echo "$before") -)
[ -z "$left" ] || fail "purging leaves $left"
for dir in /var/lib/better-compute /var/lib/bcd /etc/bcd; do [ ! -e "$system$dir" ] || fail "purging leaves $dir"; done
ok "purging leaves nothing behind but the users"

inside sh -c 'rpm -i --nodeps /tmp/dist/better-compute-*.rpm /tmp/dist/bcd-0*.rpm' >"$tmp/rpm.log" 2>&1 || { cat "$tmp/rpm.log" >&2; fail "rpm -i"; }
inside rpm -V --nodeps better-compute bcd || fail "rpm -V"
inside better-compute version >/dev/null && inside bcd --version >/dev/null || fail "what the .rpm brings doesn't run"
for file in /usr/share/licenses/better-compute/LICENSE /usr/share/zsh/site-functions/_bcd /usr/share/man/man1/bcd.1.gz /usr/lib/systemd/system/bcd.service; do
    [ -f "$system$file" ] || fail "the .rpm has no $file"
done
inside rpm -e better-compute bcd >"$tmp/rpm.log" 2>&1 || { cat "$tmp/rpm.log" >&2; fail "rpm -e"; }
[ ! -e "$system/usr/bin/bcd" ] || fail "rpm -e leaves the program"
ok "the .rpm packages install, verify and go"
