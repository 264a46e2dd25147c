# What both `try` scripts share; sourced by them, in their folder.
set -euo pipefail

if docker compose version >/dev/null 2>&1; then
    compose=(docker compose)
elif command -v docker-compose >/dev/null 2>&1; then
    compose=(docker-compose)
else
    echo "try: neither \"docker compose\" nor docker-compose is there" >&2
    exit 1
fi

say() {
    if [ -t 1 ]; then
        printf '\n\033[1m%s\033[0m\n' "$*"
    else
        printf '\n%s\n' "$*"
    fi
}

# Compose tells each container that it makes and ends; shown only if it fails.
quietly() {
    local log
    log=$(mktemp)
    if ! "${compose[@]}" "$@" >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

down() {
    trap - EXIT
    say "Taking all of it down (./try --keep leaves it running)"
    quietly down --volumes --remove-orphans --timeout 5
}

begin() { # the script's own words
    if [ "${1:-}" = --keep ]; then
        trap 'echo; echo "Left running. To end it: ${compose[*]} down --volumes"' EXIT
    elif [ $# -eq 0 ]; then
        trap down EXIT
    else
        echo "usage: ./try [--keep]" >&2
        exit 1
    fi
}

up() {
    quietly build router${1:-} # all services share the image
    quietly up -d
    clients=$("${compose[@]}" ps -q client)
}

# The lines of the clients: BEGAN ENDED ID served|error|lost|unsent WHAT
answers() { for one in $clients; do docker logs "$one" 2>/dev/null; done | grep -oE '[0-9.]{12,} [0-9.]{12,} [^ ]+ (served|error|lost|unsent) .*' || true; }
count() { answers | awk -v what="$1" '$4 == what' | wc -l; }

await() { # seconds, what, command ...
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        if [ "$SECONDS" -ge "$end" ]; then
            echo "try: no $what in time" >&2
            "${compose[@]}" logs --tail 20 >&2
            exit 1
        fi
        sleep 0.5
    done
}

served_at_least() { [ "$(count served)" -ge "$1" ]; }

# So many more answers from now on.
more() {
    local now
    now=$(count served)
    await 60 "$1 more answers" served_at_least $((now + $1))
}

tally() {
    answers | awk '{print $4 ($4 == "served" ? " by " : " ") $5}' | sort | uniq -c
}

# An operator's looks, with the operator's permissions.
operator() { "${compose[@]}" run --rm -T operator waybill "$@" 2>/dev/null; }
nats_cli() { "${compose[@]}" run --rm -T nats-cli "$@" 2>/dev/null; }

last_served() { answers | awk '$4 == "served" {id = $3} END {print id}'; }

read_record() { # request id
    say "Who served $1? The record in the bucket, by the nats CLI: nats kv get waybill_attribution chat.$1"
    await 20 "record of $1" nats_cli kv get waybill_attribution "chat.$1" --raw
    nats_cli kv get waybill_attribution "chat.$1" --raw
    echo
}
