#!/usr/bin/env bash
# All that real clients can prove, which takes longer than a change should wait for:
#
#     tests/clients/all.sh [ROUTING ..]           by each of these ways that clients reach partitions; by shard unless said
#
# Builds what it needs. RECORDS says how many records each client's round trip has.
set -euo pipefail
cd "$(dirname "$0")/../.."

export CARGO_TARGET_DIR
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export RECORDS=${RECORDS:-400000}
routings=("${@:-shard}")

bash tests/clients/install.sh
cargo build --release --locked --package ringlog
export RINGLOG_BIN=$CARGO_TARGET_DIR/release/ringlog
for routing in "${routings[@]}"; do
    echo "routing: $routing"
    export RINGLOG_ROUTING=$routing
    cargo test --locked --package integration
    kafka=$CARGO_TARGET_DIR/clients/java/kafka-4.3
    python3 tests/differential/run.py --scratch "$CARGO_TARGET_DIR" "$RINGLOG_BIN" "$kafka"
    python3 tests/clients/kafka_tools.py --scratch "$CARGO_TARGET_DIR" "$RINGLOG_BIN" "$kafka"
done
