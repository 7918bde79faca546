#!/usr/bin/env bash
# Installs what the tests with real clients need: a C compiler (for librdkafka), kcat and strace from the system's
# packages, as root and only those that are missing; the Python clients into clients/venv of cargo's target folder. Nothing else is touched.
set -euo pipefail
cd "$(dirname "$0")/../.."

missing=()
for program in kcat strace; do
    command -v "$program" >/dev/null || missing+=("$program")
done
{ command -v cc && command -v make; } >/dev/null || missing+=(build-essential)
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
if [ ${#missing[@]} -gt 0 ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
fi

venv=${CARGO_TARGET_DIR:-target}/clients/venv
wanted=tests/clients/requirements.txt
if ! cmp -s "$wanted" "$venv/installed.txt"; then
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted"
    # Written last: an installation that broke off is done again.
    cp "$wanted" "$venv/installed.txt"
fi
