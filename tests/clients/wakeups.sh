#!/usr/bin/env bash
# Counts how often the threads of a running broker wake each other, with few records and with many:
#
#     tests/clients/wakeups.sh PID BOOTSTRAP TOPIC
#
# A message from one shard to another is announced by a write to the other's eventfd. Fails when such writes grow with
# the records, and where a program is missing; leaves without a verdict, saying so, where the machine forbids tracing.
set -euo pipefail

pid=$1 bootstrap=$2 topic=$3
few=10000 many=50000
# Timers and counters wake shards now and then, and more records take more time: one write in this many records is none.
records_per_write_min=200

trace=$(mktemp)
trap 'rm -f "$trace"' EXIT

for program in kcat strace; do
    if ! command -v "$program" >/dev/null; then
        echo "FAILED: $program isn't installed: run tests/clients/install.sh" >&2
        exit 1
    fi
done

# Writes this many records in small batches and reads them all.
load() {
    seq 1 "$1" | kcat -P -b "$bootstrap" -t "$topic" -X acks=all -X batch.num.messages=10 -X linger.ms=0
    kcat -C -b "$bootstrap" -t "$topic" -o beginning -e -q >/dev/null
}

# Sets $writes to the number of writes to eventfds while a load runs.
count_writes() {
    exec {messages}< <(exec strace -f -y -e trace=write -o "$trace" -p "$pid" 2>&1)
    local tracer=$! message
    # Its first words say whether it could attach.
    read -r -u "$messages" message || message="it says nothing"
    case $message in
    *attached*) ;;
    *"Operation not permitted"*)
        echo "no verdict: this machine forbids strace to attach to process $pid: $message"
        exit 0
        ;;
    *)
        echo "FAILED: strace can't attach to process $pid: $message" >&2
        exit 1
        ;;
    esac
    load "$1"
    kill -INT "$tracer"
    cat <&"$messages" >/dev/null
    exec {messages}<&-
    # `-y` shows what each descriptor is.
    writes=$(grep -c 'write(.*eventfd' "$trace" || true)
    echo "$1 records: $writes writes to eventfds"
}

load 100
count_writes $few
writes_few=$writes
count_writes $many
growth=$((writes - writes_few))
allowed=$(((many - few) / records_per_write_min))
if [ "$growth" -gt "$allowed" ]; then
    echo "FAILED: $growth more writes for $((many - few)) more records; $allowed are allowed"
    exit 1
fi
