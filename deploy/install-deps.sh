#!/bin/sh
# Installs the Debian 12 packages that Waybill needs. Safe to run again: it does nothing if all are there.
#
#   deploy/install-deps.sh                what building, running and testing need
#   deploy/install-deps.sh --build-only   what building and running the demo need
#   deploy/install-deps.sh --test         only what the tests need on top
#   deploy/install-deps.sh --check        installs nothing; exit 1 and a list if something is missing
set -eu

BUILD="build-essential cmake ninja-build pkg-config libnats-dev libmsgpack-dev libcjson-dev libuv1-dev
libmicrohttpd-dev uthash-dev libssl-dev check libsubunit-dev nats-server"
TEST="clang libclang-rt-14-dev clang-format clang-tidy cppcheck doxygen python3 python3-jsonschema openssl procps"

# Where no registry is reached the tests make their containers' Debian themselves.
command -v docker >/dev/null 2>&1 && TEST="$TEST debootstrap"

wanted="$BUILD $TEST"
check_only=no
for arg in "$@"; do
    case "$arg" in
    --build-only) wanted=$BUILD ;;
    --test) wanted=$TEST ;;
    --check) check_only=yes ;;
    -h | --help)
        sed -n '2,7s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *)
        echo "install-deps: unknown option $arg (see --help)" >&2
        exit 1
        ;;
    esac
done

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "install-deps: this script is for Debian; elsewhere install what corresponds to:" $wanted >&2
    exit 1
fi

missing=""
for package in $wanted; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$check_only" = yes ]; then
    echo "install-deps: missing:$missing" >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "install-deps: these packages are missing and only root can install them. Run:" >&2
    echo "    sudo apt-get install --no-install-recommends$missing" >&2
    exit 1
fi

echo "install-deps: installing$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Debian starts a nats-server of its own on 4222 when the package comes in; nobody asked for one.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$log" "$policy"' EXIT
fi
if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "install-deps: apt-get failed" >&2
    exit 1
fi
