#!/usr/bin/env bash
# All that real clients can prove, which takes longer than a change should wait for:
#
#     tests/clients/all.sh [shard|node ..]        by each way that clients reach partitions; both unless said
#
# Builds what it needs. RECORDS says how many records each client's round trip has.
set -euo pipefail
cd "$(dirname "$0")/../.."

export CARGO_TARGET_DIR
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export RECORDS=${RECORDS:-400000}
routings=("$@")
[ ${#routings[@]} -gt 0 ] || routings=(shard node)

bash tests/clients/install.sh
cargo build --release --locked --package ringlog
export RINGLOG_BIN=$CARGO_TARGET_DIR/release/ringlog
for routing in "${routings[@]}"; do
    echo "routing: $routing"
    RINGLOG_ROUTING=$routing cargo test --locked --package integration
done
