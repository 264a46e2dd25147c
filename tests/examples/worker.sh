#!/bin/sh
# A worker in shell around the nats tool: the payload in capitals. NATS_URL=... worker.sh SERVICE ID
service=$1 id=$2 epoch=$(date +%s%3N)

beat() { # state
    nats pub "waybill.heartbeat.$service.$id" "{\"epoch\":$epoch,\"state\":\"$1\",\"interval_ms\":1000,\"capacity\":1}" 2>/dev/null
}

# Each answer is what the command prints; the payload comes in its environment, so that it is never taken for a command.
nats reply "waybill.worker.$service.$id" --command "sh -c 'printf %s \"\$NATS_REQUEST_BODY\" | tr a-z A-Z'" >/dev/null 2>&1 &
responder=$!
trap 'beat leaving; kill $responder; exit 0' TERM INT

while kill -0 $responder 2>/dev/null; do
    beat ready
    sleep 1 &
    wait $! # a signal ends the wait, not the sleep
done
