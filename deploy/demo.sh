#!/usr/bin/env bash
# Waybill in half a minute: a private nats-server, a router, three workers, twenty requests; then one worker is killed and the requests go
# on. Builds Waybill first if need be (WAYBILL_BIN names a folder with programs to use instead). Everything it starts is ended by its process id; nothing is left behind, nothing else is touched.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = -h ] || [ "${1:-}" = --help ]; then
    sed -n '2,3s/^# \{0,1\}//p' "$0"
    exit 0
fi

deploy/install-deps.sh --build-only || exit 1
bin=${WAYBILL_BIN:-$PWD/build/release/bin}
if [ ! -x "$bin/waybilld" ] || [ ! -x "$bin/waybill" ]; then
    echo "Building Waybill (a few minutes the first time) ..."
    log=$(mktemp)
    if ! { cmake --preset release && cmake --build --preset release --target waybilld waybill; } >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        rm -f "$log"
        echo "demo: the build failed" >&2
        exit 1
    fi
    rm -f "$log"
fi
PATH=$bin:$PATH:/usr/sbin

dir=$(mktemp -d)
pids=()
stop_all() {
    trap - EXIT INT TERM
    local at
    for ((at = ${#pids[@]} - 1; at >= 0; at--)); do # the last one first: the server outlives all that need it
        kill "${pids[at]}" 2>/dev/null || true
        wait "${pids[at]}" 2>/dev/null || true
    done
    rm -rf "$dir"
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start() { # name, command ...
    local name=$1
    shift
    "$@" >"$dir/$name.log" 2>&1 &
    pids+=($!)
}

# Waits until a command succeeds, twenty seconds at most.
await() { # what, command ...
    local what=$1 end=$((SECONDS + 20))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ "$SECONDS" -ge "$end" ]; then
            echo "demo: no $what within 20 s" >&2
            tail -n 20 "$dir"/*.log >&2
            exit 1
        fi
        sleep 0.05
    done
}

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 12000)) # below the range of outgoing connections
        port_open "$port" || break
    done
    echo "$port"
}

say() {
    if [ -t 1 ]; then
        printf '\n\033[1m%s\033[0m\n' "$*"
    else
        printf '\n%s\n' "$*"
    fi
}

port=$(free_port)
monitor=$(free_port)
unset NATS_CREDS NATS_USER NATS_PASSWORD NATS_TOKEN NATS_NKEY NATS_CERT NATS_KEY NATS_CA NATS_CONTEXT
export NATS_URL=nats://127.0.0.1:$port

say "A private nats-server on port $port, a router, three workers"
start nats nats-server -js -sd "$dir/js" -a 127.0.0.1 -p "$port"
await "nats-server" port_open "$port"
cat >"$dir/waybill.json" <<CONFIG
{
  "router": {"id": "demo"},
  "services": [{"name": "chat", "subjects": ["chat.request.>"], "policy": "round_robin"}],
  "monitor": {"listen": "127.0.0.1:$monitor"}
}
CONFIG
start router waybilld -c "$dir/waybill.json"
for worker in w1 w2 w3; do
    start "$worker" waybill worker --service chat --id "$worker" --echo
    eval "pid_$worker=\${pids[-1]}"
done
three_workers() { [ "$(waybill workers --json | grep -oE '"id": ?"w[123]"' | sort -u | wc -l)" -eq 3 ]; }
await "three workers in the router's view" three_workers
waybill workers

ask() { # from, to: requests with ids demo-FROM .. demo-TO; prints who served each
    local number answer served=()
    for ((number = $1; number <= $2; number++)); do
        if ! answer=$(waybill request chat.request.demo "hello $number" --header "Waybill-Request-Id: demo-$number" --json); then
            echo "demo: request $number failed: $answer" >&2
            exit 1
        fi
        served+=("$(printf '%s' "$answer" | grep -oE '"w[123]"' | head -n 1 | tr -d '"')")
    done
    echo "served by: ${served[*]}"
}

say "Twenty requests"
ask 1 20

say "Worker w2 is killed; requests go on"
{ kill -KILL "$pid_w2" && wait "$pid_w2" || true; } 2>/dev/null # the shell has a word for it too
ask 21 30

say "Who served request demo-7? (waybill who demo-7 --service chat)"
recorded() { waybill who demo-7 --service chat; }
await "the record of demo-7" recorded
recorded

say "And a request that nobody made"
waybill who demo-999 --service chat 2>&1 || true

say "What the router knows now (waybill workers): ejected is who gets no requests for now"
waybill workers

say "Done. Everything the demo started is being stopped."
