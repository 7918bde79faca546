#!/usr/bin/env bash
# Ringlog beside fio and iperf3, in one run on this machine. Arguments go to the program behind it: try --help.
set -euo pipefail
cd "$(dirname "$0")/../.."

missing=()
for program in fio iperf3; do
    command -v "$program" >/dev/null || missing+=("$program")
done
if ((${#missing[@]})); then
    echo "missing: ${missing[*]}. On Debian and Ubuntu: apt-get install ${missing[*]}" >&2
    exit 2
fi

cargo build --quiet --release --locked --package ringlog --bin ringlog
cargo build --quiet --release --locked --package benches --bin compare
target=${CARGO_TARGET_DIR:-target}
exec "$target/release/compare" --folder "$target/compare" --broker "$target/release/ringlog" --results benches/RESULTS.md "$@"
