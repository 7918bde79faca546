#!/usr/bin/env bash
# Installs what the tests with real clients need: kcat, strace and a C compiler from the system's packages (as root, and
# only those that are missing), the Python clients into target/clients/venv. Nothing else is touched.
set -euo pipefail
cd "$(dirname "$0")/../.."

missing=()
for program_and_package in kcat:kcat strace:strace cc:build-essential make:build-essential python3:python3-venv; do
    command -v "${program_and_package%%:*}" >/dev/null || missing+=("${program_and_package##*:}")
done
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
