#!/usr/bin/env bash
# Makes a release of the work tree in a folder: for each architecture static programs, for this machine's also bcd with NVML, packages for Debian
# and RPM, archives, and the sums of all. The same commit gives the same bytes, wherever it is built: `just packages` builds twice and compares.
#
#   tools/release.sh [-o dist] [-v VERSION] [amd64 arm64]      without architectures: this machine's
#
# The version is the tag on the commit, like v0.1.0; between tags it is the next one's with dev, the commit's time and its name.
set -euo pipefail
cd "$(dirname "$0")/.."
out=dist version=''
while getopts o:v: flag; do
    case $flag in
        o) out=$OPTARG ;;
        v) version=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
host=$(go env GOARCH)
archs=("${@:-$host}")

next=0.1.0 # the version that is being worked on
export SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
if [ -z "$version" ]; then
    version=$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null | sed 's/^v//') ||
        version=$next-dev.$(TZ=UTC git log -1 --date=format-local:%Y%m%d%H%M --format=%cd).$(git log -1 --abbrev=12 --format=%h)
fi
VERSION=${version%%-*} PRERELEASE=''
[ "$version" = "$VERSION" ] || PRERELEASE=${version#*-}
MTIME=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
[ -f console/dist/index.html ] || { echo "release: the console is not built: just console" >&2; exit 1; }

# The recipes name what they need by these; the environment's own flags would change the bytes.
export GOFLAGS="-tags=nobadger,nobbolt,nomysql,nopgx -trimpath -buildvcs=false" GOAMD64=v1 GOARM64=v8.0
stamp="-s -w -buildid= -X main.version=$version -X main.revision=$(git rev-parse HEAD)"
umask 022
rm -rf "$out"
mkdir -p "$out"

# What is the same for every architecture: pages, completions, licences.
shared=$out/shared
mkdir -p "$shared/man" "$shared/completion" "$shared/doc"
for program in better-compute bcd; do
    CGO_ENABLED=0 go build -tags nobadger,nobbolt,nomysql,nopgx,manual -ldflags "$stamp" -o "$shared/$program" "./cmd/$program"
    "$shared/$program" write-manual "$shared/man"
    for shell in bash zsh fish; do
        "$shared/$program" completion "$shell" >"$shared/completion/$program.$shell"
    done
    rm "$shared/$program"
done
rm -f "$shared/man/"*write-manual* "$shared/man/"*-completion*
gzip -9n "$shared/man/"*.1
tools/licenses.sh >"$shared/doc/third-party-licenses"
{
    echo "better-compute is licensed under the terms below. The programs hold libraries of others; third-party-licenses.gz has their terms."
    echo
    cat LICENSE
} >"$shared/doc/copyright"
cp CHANGELOG.md "$shared/doc/changelog"
gzip -9n "$shared/doc/changelog" "$shared/doc/third-party-licenses"

(cd tools/release && GOFLAGS='' CGO_ENABLED=0 go build -o "$OLDPWD/bin/tools/nfpm" github.com/goreleaser/nfpm/v2/cmd/nfpm)

# package NAME: makes a .deb and an .rpm of the folder DIR by the recipe of its program.
package() {
    local kind recipe variable
    recipe=$(<"deploy/package/${1%-nvml}.yaml")
    for variable in ARCH DIR NAME OTHER PROVIDES VARIANT LIBC VERSION PRERELEASE MTIME; do
        recipe=${recipe//"\${$variable}"/"${!variable}"}
    done
    for kind in deb rpm; do
        bin/tools/nfpm package --config <(echo "$recipe") --packager "$kind" --target "$out/" >"$out/nfpm.log" || { cat "$out/nfpm.log" >&2; exit 1; }
    done
    rm "$out/nfpm.log"
}

for ARCH in "${archs[@]}"; do
    DIR=$out/linux-$ARCH NAME=bcd OTHER=bcd-nvml PROVIDES='' VARIANT='' LIBC=''
    mkdir -p "$DIR/image-data"
    cp -r "$shared/." "$DIR/"
    CGO_ENABLED=0 GOOS=linux GOARCH=$ARCH go build -ldflags "$stamp" -o "$DIR/" ./cmd/better-compute ./cmd/bcd
    for name in better-compute bcd; do
        printf '%s (%s) unstable; urgency=medium\n\n  * What changed for users stands in changelog.gz.\n\n -- better-compute maintainers <maintainers@better-compute.example>  %s\n' \
            "$name" "$VERSION${PRERELEASE:+~$PRERELEASE}" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$DIR/doc/changelog.Debian.gz"
        package "$name"
    done
    programs=(better-compute bcd)
    if [ "$ARCH" = "$host" ] && [ "$(go env CGO_ENABLED)" = 1 ]; then
        CGO_ENABLED=1 CGO_CFLAGS="-O2 -g0 -Wno-deprecated-declarations" go build -ldflags "$stamp" -o "$DIR/bcd-nvml" ./cmd/bcd
        NAME=bcd-nvml OTHER=bcd PROVIDES=bcd VARIANT=', with NVML' LIBC=', libc6 (>= 2.34)' package bcd-nvml
        programs+=(bcd-nvml)
    elif [ "$ARCH" = "$host" ]; then
        echo "release: NOT MADE: bcd with NVML, for want of a C compiler" >&2
    fi
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$DIR" -c "${programs[@]}" man completion doc |
        gzip -6n >"$out/better-compute-$version-linux-$ARCH.tar.gz"
done
rm -r "$shared"
(cd "$out" && sha256sum -- *.deb *.rpm *.tar.gz >SHA256SUMS)
echo "release: $version in $out: $(cd "$out" && wc -l <SHA256SUMS) files"
