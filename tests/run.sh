#!/usr/bin/env bash
# Builds Waybill and runs every test there is. Ends with the line `N passed, N failed, N skipped`; exit 1 if anything failed.
#
#   tests/run.sh                  everything: lint, unit, model and golden tests on three builds, end-to-end tests on each
#                                 nats-server found (and once under each sanitizer), fuzz targets, schemas, and, where
#                                 there is a Docker engine, the projects of deploy/compose
#   tests/run.sh --quick          the release build only, the end-to-end tests on one server, no fuzzing, no clang-tidy,
#                                 no containers
#   tests/run.sh --only PATTERN   only the tests (ctest, end-to-end, containers) whose name holds PATTERN
#   tests/run.sh --no-install     do not look for missing packages
set -uo pipefail
cd "$(dirname "$0")/.."
ROOT=$PWD

quick=no
only=
install=yes
while [ $# -gt 0 ]; do
    case "$1" in
    --quick) quick=yes ;;
    --no-install) install=no ;;
    --only)
        [ $# -ge 2 ] || { echo "--only takes a pattern" >&2; exit 1; }
        only=$2
        shift
        ;;
    --only=*) only=${1#--only=} ;;
    -h | --help)
        sed -n '2,10s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *)
        echo "tests/run.sh: unknown option $1 (see --help)" >&2
        exit 1
        ;;
    esac
    shift
done

# Debian's Python has the jsonschema package of Debian; another one may come first on the PATH.
PYTHON=/usr/bin/python3
FUZZ_SECONDS=${WAYBILL_FUZZ_SECONDS:-10}
passed=0
failed=0
skipped=0
failures=()
logs=$ROOT/build/logs
mkdir -p "$logs"

say() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }

finish() {
    printf '\n'
    for one in "${failures[@]+"${failures[@]}"}"; do
        printf 'FAILED: %s\n' "$one"
    done
    printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
    [ "$failed" -eq 0 ]
    exit
}

fail() {
    failed=$((failed + 1))
    failures+=("$1")
}

skip() { # name, why
    skipped=$((skipped + 1))
    printf 'skip  %s: %s\n' "$1" "$2"
}

# One check: its output is shown only if it fails.
check() {
    local name=$1 log
    shift
    log=$logs/$(printf '%s' "$name" | tr -c 'A-Za-z0-9\n' '-').log
    if "$@" >"$log" 2>&1; then
        passed=$((passed + 1))
        printf 'ok    %s\n' "$name"
    else
        fail "$name"
        printf 'FAIL  %s\n' "$name"
        tail -n 200 "$log"
        return 1
    fi
}

build() { # preset
    say "build $1"
    check "build $1" sh -c "cmake --preset $1 && cmake --build --preset $1 -j 2"
}

ctests() { # preset
    local preset=$1 summary log=$logs/ctest-$1.log
    say "unit, model and golden tests ($preset)"
    ctest --test-dir "build/$preset" -j 2 --timeout 300 --output-on-failure --no-tests=ignore ${only:+-R "$only"} >"$log" 2>&1
    summary=$(grep -E '^[0-9]+% tests passed' "$log")
    if [ -z "$summary" ]; then
        if grep -q 'No tests were found' "$log" && [ -n "$only" ]; then
            return 0
        fi
        fail "ctest $preset ran no tests"
        tail -n 30 "$log"
        return 1
    fi
    local bad total not_run
    bad=$(printf '%s' "$summary" | sed -E 's/.*, ([0-9]+) tests? failed out of.*/\1/')
    total=$(printf '%s' "$summary" | sed -E 's/.*out of ([0-9]+).*/\1/')
    not_run=$(grep -cE '\*\*\*Skipped' "$log")
    passed=$((passed + total - bad - not_run))
    skipped=$((skipped + not_run))
    printf '%d of %d passed\n' $((total - bad)) "$total"
    if [ "$bad" -ne 0 ]; then
        while read -r name; do
            fail "$preset: $name"
        done < <(sed -nE '/The following tests FAILED/,$s/^[[:space:]]+[0-9]+ - ([^ ]+) .*/\1/p' "$log")
        cat "$log"
    fi
}

# A runner that takes --only and leaves its counts in a file.
counted() { # name, command ...
    local name=$1 summary=$logs/$1.json
    shift
    rm -f "$summary"
    "$@" --summary "$summary" ${only:+--only "$only"} | tee "$logs/$name.log"
    if [ ! -s "$summary" ]; then
        fail "$name did not run"
        return 1
    fi
    read -r good bad left < <("$PYTHON" -c 'import json,sys
s = json.load(open(sys.argv[1])); print(s["passed"], s["failed"], s["skipped"])' "$summary")
    passed=$((passed + good))
    skipped=$((skipped + left))
    if [ "$bad" -ne 0 ]; then
        while read -r one; do
            fail "$name: $one"
        done < <(sed -n 's/^failed: //p' "$logs/$name.log")
    fi
}

e2e() { # name, arguments of run.py
    local name=$1
    shift
    say "end-to-end tests ($name)"
    counted "e2e-$name" "$PYTHON" tests/e2e/run.py "$@"
}

# Without a Docker engine, or without Debian's mirror, it prints a skip.
containers() {
    say "containers"
    counted containers "$PYTHON" tests/containers/run.py
}

lint() {
    say "lint"
    check "lint: include direction and header cycles" "$PYTHON" tests/lint/includes.py
    check "lint: functions, calls, names" "$PYTHON" tests/lint/functions.py
    check "lint: clang-format" tests/lint/format.sh
    check "lint: cppcheck" tests/lint/cppcheck.sh
    check "lint: each public function has a comment and an example" "$PYTHON" tests/lint/reference.py
    if command -v doxygen >/dev/null; then
        mkdir -p build/doc
        check "lint: reference of libwaybill" doxygen include/waybill/Doxyfile
    else
        skip "lint: reference of libwaybill" "there is no doxygen"
    fi
    [ "$quick" = yes ] || check "lint: clang-tidy" "$PYTHON" tests/lint/tidy.py
}

fuzz() {
    build fuzz || return 1
    say "fuzz targets, $FUZZ_SECONDS s each"
    local target name count=0
    for target in build/fuzz/bin/fuzz_*; do
        [ -x "$target" ] || continue
        count=$((count + 1))
        name=${target##*/fuzz_}
        mkdir -p "build/corpus/$name"
        local seeds=()
        [ -d "tests/fuzz/corpus/$name" ] && seeds=("tests/fuzz/corpus/$name")
        check "fuzz: $name" "$target" -max_total_time="$FUZZ_SECONDS" -timeout=10 -rss_limit_mb=1024 \
            -artifact_prefix="build/logs/$name-" -print_final_stats=1 "build/corpus/$name" "${seeds[@]+"${seeds[@]}"}"
    done
    [ "$count" -gt 0 ] || fail "fuzz: no targets were built"
}

if [ "$install" = yes ]; then
    say "packages"
    check "packages" deploy/install-deps.sh || finish
fi

build release || finish
[ -n "$only" ] || lint
ctests release
if [ "$quick" = yes ]; then
    e2e release --bin build/release/bin --first-server
    finish
fi
e2e release --bin build/release/bin
containers
for preset in asan tsan; do
    if build "$preset"; then
        ctests "$preset"
        e2e "$preset" --bin "build/$preset/bin" --first-server --slow
    fi
done
[ -n "$only" ] || fuzz
finish
