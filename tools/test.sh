#!/usr/bin/env bash
# Runs the named recipes one after another, stops at the first that fails, and closes with the seconds of each and the sum of what
# the test runners counted. A recipe that counts prints `name: N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p bin/test
rm -f bin/test/*.log bin/test/*.json

# What some tests need beside Go, Node and npm: program, Debian packages, and what does not run without it.
needs=(
    "gcc|gcc libc6-dev|the race detector"
    "chromium|chromium|the console in a browser"
    "/usr/lib/postgresql/15/bin/postgres|postgresql-15|the database on PostgreSQL 15"
    "swtpm|swtpm swtpm-tools|joins by TPM"
    "rpm|rpm|installing the packages"
    "systemd-analyze|systemd|the units of the packages"
    "jq|jq|automation by a shell"
)
missing() {
    local need
    for need in "${needs[@]}"; do
        command -v "${need%%|*}" >/dev/null || echo "$need"
    done
}
packages() { missing | cut -d'|' -f2 | paste -sd' '; }

if [ -n "$(missing)" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "==> apt-get install $(packages)"
    # shellcheck disable=SC2046 # a list of words
    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $(packages); } \
        >bin/test/apt-get.log 2>&1 || tail -n 5 bin/test/apt-get.log
fi
if [ -n "$(missing)" ] && [ "${BC_TEST_REQUIRE:-}" = all ]; then
    echo "test: BC_TEST_REQUIRE=all, and these are missing: $(packages)" >&2
    exit 1
fi

failed='' times=()
for recipe in "$@"; do
    echo "==> $recipe"
    began=$SECONDS
    "$JUST" --no-deps "$recipe" 2>&1 | tee "bin/test/$recipe.log"
    [ "${PIPESTATUS[0]}" = 0 ] || failed=$recipe
    times+=("$(printf '%5ds  %s%s' $((SECONDS - began)) "$recipe" "${failed:+  FAILED}")")
    [ -z "$failed" ] || break
done

echo
printf '%s\n' "${times[@]}"
printf '%5ds  in all\n' "$SECONDS"
[ -z "$(missing)" ] || echo "NOT RUN: $(missing | cut -d'|' -f3 | paste -sd, | sed 's/,/, /g'); as root: apt-get install $(packages)"
grep -hoE 'NOT RUN: needs .*' bin/test/*.log | sort | uniq -c | sed -E 's/^ *([0-9]+) NOT RUN: needs /NOT RUN: \1 tests that need /'
# What failed, once more, where a log that was cut still shows it.
[ -z "$failed" ] || grep -E -A 8 '^(FAIL  |=== FAIL|--- FAIL)' "bin/test/$failed.log" | tail -n 80
# The last counting line of each recipe, added up.
for recipe in "$@"; do
    [ ! -f "bin/test/$recipe.log" ] || grep -E '^[a-z0-9-]+: [0-9]+ passed, [0-9]+ failed' "bin/test/$recipe.log" | tail -n 1
done | awk -v broke="$failed" '
    { for (i = 2; i < NF; i++) { if ($(i+1) ~ /^passed/) passed += $i; if ($(i+1) ~ /^failed/) failed += $i; if ($(i+1) ~ /^skipped/) skipped += $i } }
    END {
        if (broke != "") { printf "FAILED: %s\n", broke; if (failed == 0) failed = 1 }
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    }'
[ -z "$failed" ]
