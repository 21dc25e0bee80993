#!/bin/sh
# Asks a running service with curl: a search in both contracts, and its health.
#
#   SIDECAR_TOKEN=$(memory-sidecar token) sh examples/client/ask.sh http://127.0.0.1:8737
set -eu
url=${1:-http://127.0.0.1:8737}
# The token goes through a file descriptor, not through the list of processes.
ask() {
    curl --silent --show-error --fail-with-body --config - "$url/rpc/$1" --data "$2" <<CURL
header = "Authorization: Bearer $SIDECAR_TOKEN"
header = "Content-Type: application/json"
CURL
    echo
}
ask memory.search '{"version": 2, "query": "who serviced the boiler?", "maxResults": 1}'
ask memory.search '{"query": "who serviced the boiler?", "maxResults": 1}'
ask memory.status '{}'
