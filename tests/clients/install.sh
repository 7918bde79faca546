#!/usr/bin/env bash
# Installs what the tests with real clients and full drives need: a C compiler (for librdkafka), kcat, strace, mkfs.ext4, Java and Node from the
# system's packages, as root and only those that are missing; the Python, JavaScript and Java clients, and an Apache Kafka to
# compare with, into clients/ of cargo's target folder. Nothing else is touched, and what is there needs no network.
set -euo pipefail
cd "$(dirname "$0")/../.."

missing=()
for program in kcat strace; do
    command -v "$program" >/dev/null || missing+=("$program")
done
command -v mkfs.ext4 >/dev/null || missing+=(e2fsprogs)
{ command -v node && command -v npm; } >/dev/null || missing+=(nodejs npm)
{ command -v java && command -v javac; } >/dev/null || missing+=(default-jdk-headless)
command -v mvn >/dev/null || missing+=(maven)
{ command -v cc && command -v make; } >/dev/null || missing+=(build-essential)
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
if [ ${#missing[@]} -gt 0 ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
fi

clients=$(realpath -m "${CARGO_TARGET_DIR:-target}")/clients
mkdir -p "$clients"

venv=$clients/venv
wanted=tests/clients/requirements.txt
if ! cmp -s "$wanted" "$venv/installed.txt"; then
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted"
    # Written last: an installation that broke off is done again.
    cp "$wanted" "$venv/installed.txt"
fi

node=$clients/javascript
wanted=tests/clients/javascript/package.json
if ! cmp -s "$wanted" "$node/installed.json"; then
    rm -rf "$node"
    mkdir "$node"
    cp "$wanted" "$node/package.json"
    npm install --prefix "$node" --silent --no-audit --no-fund --no-package-lock
    cp "$wanted" "$node/installed.json"
fi

java=$clients/java
wanted=tests/clients/java/pom.xml
if ! cmp -s "$wanted" "$java/installed.xml"; then
    rm -rf "$java"
    for profile in clients-3.9 kafka-4.3; do
        mvn --quiet --batch-mode --file "$wanted" --activate-profiles "$profile" \
            dependency:copy-dependencies -DoutputDirectory="$java/$profile"
    done
    cp "$wanted" "$java/installed.xml"
fi
