#!/usr/bin/env bash
# Format, types, references, tests and policies of everything under terraform/. Nothing is looked up in an AWS account.
#
#   terraform/check.sh PYTHON    PYTHON has the packages of requirements.txt
#
# With the offline validators (DEPLOY_TOOLS, or ../shared/tools beside the repository) no provider is downloaded; without
# them `terraform init` fetches the real ones.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:?usage: terraform/check.sh PYTHON}
tools=${DEPLOY_TOOLS:-../shared/tools}

need() {
    command -v "$1" > /dev/null || {
        echo "check-terraform needs $1: $2" >&2
        exit 1
    }
}

with_real_providers() {
    terraform fmt -check -recursive -diff terraform
    for folder in terraform/stacks/* terraform/modules/*; do
        echo "== $folder"
        terraform -chdir="$folder" init -backend=false -input=false > /dev/null
        terraform -chdir="$folder" validate
        if compgen -G "$folder/tests/*.tftest.hcl" > /dev/null; then
            terraform -chdir="$folder" test
        fi
    done
}

need terraform "1.11 or newer, from developer.hashicorp.com/terraform/install"
need "$python" "see the target check-terraform in the Makefile"
need "$(dirname "$python")/checkov" "pip install -r terraform/requirements.txt"

if [ -f "$tools/validate_terraform.py" ]; then
    "$python" "$tools/validate_terraform.py" terraform --strict
else
    echo "No offline validators in $tools: checking with the real providers, which terraform downloads."
    with_real_providers
fi
# Its warnings are about its own bookkeeping.
LOG_LEVEL=ERROR "$(dirname "$python")/checkov" --directory terraform --framework terraform --compact --quiet --skip-download
