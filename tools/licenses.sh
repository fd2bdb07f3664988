#!/usr/bin/env bash
# Prints the licences of what the released programs hold of others: the Go modules that are linked in, and the console's packages.
set -euo pipefail
cd "$(dirname "$0")/.."
section() {
    printf '%s\n%s\n\n' "$1" "$(printf '%*s' "${#1}" '' | tr ' ' =)"
    cat -- "${@:2}"
    printf '\n\n'
}
section "The Go programming language and its library" "$(go env GOROOT)/LICENSE"
go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/better-compute ./cmd/bcd | LC_ALL=C sort -u |
    while read -r path number dir; do
        mapfile -t files < <(find "$dir" -maxdepth 1 -type f \( -iname 'license*' -o -iname 'licence*' -o -iname 'copying*' -o -iname 'notice*' \) | LC_ALL=C sort)
        [ ${#files[@]} -gt 0 ] || { echo "licenses: $path has none" >&2; exit 1; }
        section "$path $number" "${files[@]}"
    done
# Those that the lock file doesn't mark as needed for building alone.
node -e 'const { packages } = require("./console/package-lock.json");
    for (const [dir, p] of Object.entries(packages)) if (dir !== "" && !p.dev && !p.devOptional && !p.optional) console.log("console/" + dir)' | LC_ALL=C sort | while read -r dir; do
    name=$(node -p 'const p = require(process.argv[1]); `${p.name} ${p.version} (${p.license})`' "./$dir/package.json")
    mapfile -t files < <(find "$dir/" -maxdepth 1 -type f \( -iname 'license*' -o -iname 'licence*' -o -iname 'notice*' \) | LC_ALL=C sort)
    if [ ${#files[@]} -gt 0 ]; then
        section "$name" "${files[@]}"
    else
        section "$name" <(echo "It comes without a text of its own.")
    fi
done
