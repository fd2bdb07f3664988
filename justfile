# The only list of commands. `just` alone prints it; the README's two are `up` and `test`.

set shell := ["bash", "-euo", "pipefail", "-c"]

# The signer comes with storage back ends that nothing here uses; the tags leave them out.
export GOFLAGS := trim(env("GOFLAGS", "") + " -tags=nobadger,nobbolt,nomysql,nopgx")
export JUST := just_executable()

# The header of the GPU library marks calls as old that its Go binding wraps all the same.
export CGO_CFLAGS := env("CGO_CFLAGS", "-O2 -g -Wno-deprecated-declarations")

# `go test -race` needs a C compiler; without one the same tests run without it.
race := `[ "$(go env CGO_ENABLED)" = 1 ] && echo -race || true`
tool := "go tool -modfile=tools/go.mod"

# List the commands.
default:
    @{{ JUST }} --list --unsorted

# Build everything, start the control plane with its own PostgreSQL, join this machine with a real bcd.
up *args: build
    @exec tools/up.sh {{ args }}

# A control plane with simulated machines, to look at: just demo 200. It has a data directory of its own, DEMO_DIR.
demo machines="200" *args: build
    @exec bin/better-compute serve --data-dir "${DEMO_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/better-compute-demo}" --demo {{ machines }} {{ args }}

# Simulate machines for a control plane that runs: just sim 50 --server http://127.0.0.1:8080
sim machines="50" *args: build
    @exec bin/better-compute sim {{ machines }} {{ args }}

# Everything CI runs, with its own set-up; prints the seconds of each step.
test:
    @tools/test.sh setup console build tools unit unit-15 model console-test main-job browser up-twice automation packages secrets bench-smoke check-generated requirements lint cases

# Go tests, all or of some packages: just unit ./node ./controls
unit *packages="./...": tools
    @mkdir -p bin/test
    @bin/tools/gotestsum --format pkgname-and-test-fails --jsonfile bin/test/unit.json -- {{ race }} -p 2 -timeout 20m {{ packages }} \
        || code=$?; bin/tools/cases -count unit bin/test/unit.json; exit ${code:-0}

# db and events once more, on the oldest PostgreSQL that is supported.
unit-15: tools
    @mkdir -p bin/test
    @[ -x /usr/lib/postgresql/15/bin/postgres ] || { echo "unit-15: 0 passed, 0 failed, 1 skipped"; exit 0; }; \
        BC_TEST_POSTGRES_BIN=/usr/lib/postgresql/15/bin \
        bin/tools/gotestsum --format pkgname-and-test-fails --jsonfile bin/test/unit-15.json -- {{ race }} -timeout 10m ./db ./db/dbtest ./events/... \
        || code=$?; bin/tools/cases -count unit-15 bin/test/unit-15.json; exit ${code:-0}

# The model of a node's axes beside the database in its full length, without the race detector, which runs it shorter in `unit`: just model -seed 7
model *args: tools
    @mkdir -p bin/test
    @CGO_ENABLED=0 bin/tools/gotestsum --format standard-verbose --jsonfile bin/test/model.json -- -trimpath -timeout 5m ./e2e/model {{ args }} \
        || code=$?; bin/tools/cases -count model bin/test/model.json; exit ${code:-0}

# The whole-system tests alone: machines against a gateway, and real processes that are killed at each step of a drain.
e2e: setup console build
    {{ JUST }} unit ./e2e/... ./cmd/better-compute

# The main job from end to end on a scratch directory: serve, join, book, drain, kill, start again, release, node.drained once.
main-job: build
    e2e/main-job

# `just up` twice on scratch directories, and as a user without rights when root runs it: the same node both times.
up-twice: build
    e2e/up

# Fuzz each parser of outside bytes for a while, or those that are named: just fuzz 1m FuzzUp
fuzz time="20s" *targets:
    tools/fuzz.sh {{ time }} {{ targets }}

# Benchmarks with their floors, all or one: just bench cordon
bench *names: build
    @CGO_ENABLED=0 go build -trimpath -o bin/bench ./bench && bin/bench {{ names }}

# By how much the rows grow beside simulated machines that beat: just bench-growth 2000 [cordon …]
bench-growth machines="2000" *names: build
    @CGO_ENABLED=0 go build -trimpath -o bin/bench ./bench && bin/bench -machines {{ machines }} {{ names }}

# The rows with so many nodes in the database, and what those take: just bench-nodes 100000 [cordon …]
bench-nodes nodes="100000" *names="cordon get list100 fleet": build
    @CGO_ENABLED=0 go build -trimpath -o bin/bench ./bench && bin/bench -nodes {{ nodes }} {{ names }}

# The benchmarks, small: each has to run and print its row; ratios of CPU and memory are judged with room, those of times are there to be read.
bench-smoke: build
    @mkdir -p bin/test && CGO_ENABLED=0 go build -trimpath -o bin/bench ./bench
    @bin/bench -small -check | tee bin/test/bench.jsonl
    @bin/bench -small -machines 40 cordon drain get | tee -a bin/test/bench.jsonl
    @echo "bench-smoke: $(grep -c '"ratio"' bin/test/bench.jsonl) passed, 0 failed"

# How many tests passed for each case id, in the last run of each runner.
cases: tools
    @bin/tools/cases $(ls bin/test/*.json)

# Run the main line with planted secrets and look for them in logs, events and command lines.
secrets: build
    e2e/secrets

# Static programs, bcd with NVML, .deb and .rpm packages and their sums in dist/, for this machine's architecture or those that are named: just release amd64 arm64
release *archs: console
    @mkdir -p bin/tools
    tools/release.sh {{ archs }}

# Build the release twice and compare; install the packages in a throw-away copy of this system, run what they install, remove them. Needs root.
packages *args: console
    tools/packages.sh {{ args }}

# Build the container image from what `just release` made, and look at what is in it and whether it runs. Needs buildah.
image *dir:
    tools/image.sh {{ dir }}

# Make the programs for arm64 and start them in an emulator. Needs qemu-user-static.
arm64: console
    tools/arm64.sh

# The programs of docs/automation.md against a control plane of their own, each killed and started again.
automation: build
    e2e/automation

# Go's linters and formatting, and the proof that the import rules bite; the console's are in console-test.
lint:
    {{ tool }} golangci-lint run ./...
    tools/planted.sh

# Format Go and the console.
fmt:
    {{ tool }} golangci-lint fmt ./...
    cd console && npm run --silent fix

# Make all generated code anew.
generate:
    go run ./graph/eventgen
    {{ tool }} gqlgen generate
    go -C tools run ./protogen ../gateway/wire session.proto
    cd console && npm run --silent codegen

# Generated code must be what `generate` makes of its sources, and go.mod must be tidy.
check-generated:
    tools/check-generated.sh

# bin/better-compute and bin/bcd; what a release needs too is compiled as it is there.
build: console
    @mkdir -p bin
    CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/better-compute
    go build -trimpath -o bin/ ./cmd/bcd

# The console's files, which the binary embeds.
console: setup
    cd console && npm run --silent build && npm run --silent size

# Types, lint and tests of the console.
console-test: setup tools
    @mkdir -p bin/test
    cd console && npm run --silent check
    @cd console && npx --no-install vitest run --reporter=default --reporter=json --outputFile=../bin/test/console.json \
        || code=$?; ../bin/tools/cases -count console ../bin/test/console.json; exit ${code:-0}

# The console in Chromium against control planes of its own: what people do, what goes wrong, and axe on every page and state. Or some: just browser flows
browser *parts: build tools
    @e2e/console/run {{ parts }}

# Pictures of every page and state of the console, light and dark, wide and narrow, in bin/screenshots.
screenshots: build tools
    @rm -rf bin/screenshots && SHOTS=bin/screenshots e2e/console/run screens && ls bin/screenshots

# How fast the console is with 20,000 nodes: its first rows, and ten seconds at 500 updates a second.
console-perf: build tools
    @e2e/console/run perf

# Hostile clients against a real server, in full sizes and alone on the machine: just abuse [TestIdle]
abuse *name: build
    tools/abuse.sh {{ name }}

# Every seed sentence has its row in docs/requirements.md, and the tests that the rows name exist.
requirements: tools
    @mkdir -p bin/test
    @(cd tools && ../bin/tools/gotestsum --format pkgname-and-test-fails --jsonfile ../bin/test/requirements.json -- ./cases ./requirements) \
        || code=$?; bin/tools/requirements; bin/tools/cases -count requirements bin/test/requirements.json; exit ${code:-0}

# Small programs that the recipes run, built once.
tools:
    @mkdir -p bin/tools && go -C tools build -o ../bin/tools/ ./cases ./requirements gotest.tools/gotestsum

# What npm brings: the PostgreSQL that serve runs, and the console's packages.
setup:
    @tools/setup.sh

# Remove what was built.
clean:
    rm -rf bin dist console/dist/*
