#!/usr/bin/env bash
# Check everything that is rolled out but Terraform: image, shell, charts with every example, alarms, dashboard.
# With DEPLOY_TOOLS (../shared/tools where that exists) manifests are held against strict schemas offline;
# without, against those that kubeconform fetches.
set -euo pipefail
cd "$(dirname "$0")/.."
TOOLS=${DEPLOY_TOOLS:-../shared/tools}
KUBERNETES=1.33.0
OUT=.tools/rendered
CATALOGUE='https://raw.githubusercontent.com/datreeio/CRDs-catalog/main/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json'
export PATH="$PWD/.tools/bin:$PWD/.venv-deploy/bin:$PATH"

step() { echo "== $*"; }

validate() {
    if [ -e "$TOOLS/validate_manifests.py" ]; then
        .venv-deploy/bin/python "$TOOLS/validate_manifests.py" --quiet --require-cel --kube-version "${KUBERNETES%.*}" "$1"
    else
        echo "no $TOOLS: kubeconform, with schemas from the network"
        kubeconform -strict -summary -kubernetes-version "$KUBERNETES" -schema-location default \
            -schema-location "$CATALOGUE" "$1"
    fi
}

check_chart() {
    local chart=$1 example rendered
    for example in "$chart"/examples/*.yaml; do
        step "$example"
        rendered=$OUT/$(basename "$chart")-$(basename "$example")
        helm lint --strict --quiet "$chart" --values "$example"
        helm template canopy "$chart" --namespace canopy --values "$example" --kube-version "$KUBERNETES" > "$rendered"
        validate "$rendered"
    done
}

# The rules of the PrometheusRule, as Prometheus reads them.
rules_of() {
    .venv-deploy/bin/python -c '
import sys, yaml
for document in yaml.safe_load_all(sys.stdin):
    if document and document["kind"] == "PrometheusRule":
        print(yaml.safe_dump(document["spec"]))'
}

check_alarms() {
    local rules=k8s/chart/tests/alarms.rendered.yaml
    step "alarms"
    rules_of < "$OUT/chart-one-gpu.yaml" > "$rules"
    promtool check rules --lint=all --lint-fatal "$rules"
    promtool test rules k8s/chart/tests/alarms.yaml
}

check_dashboards() {
    step "dashboards"
    if [ ! -e "$TOOLS/lint_dashboards.py" ]; then
        echo "no $TOOLS: only the metrics' names are checked, by tests/deploy"
        return
    fi
    PYTHONPATH=. "${SERVICE_PYTHON:-.venv/bin/python}" tests/deploy/metric_names.py > "$OUT/metrics.txt"
    .venv-deploy/bin/python "$TOOLS/lint_dashboards.py" --metrics "$OUT/metrics.txt" k8s/chart/files/*.json
}

mkdir -p "$OUT"
step "Dockerfile and shell scripts"
hadolint deploy/Dockerfile
git ls-files -z -- '*.sh' .ci/run | xargs -0 shellcheck
check_chart k8s/chart
check_chart k8s/karpenter
check_alarms
check_dashboards
