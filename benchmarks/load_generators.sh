#!/usr/bin/env bash
# Two public load generators against a running service; fails unless each completes all of its requests.
#
#   benchmarks/load_generators.sh [URL] [REQUESTS] [CONCURRENCY]
#
# Each gets an environment of its own beside this checkout's .venv (2.7 GB together, once), because they pin other
# versions than the service does. The tokenizer is the default model's; TOKENIZER=folder names another one.
set -euo pipefail
cd "$(dirname "$0")/.."
url=${1:-http://127.0.0.1:8000} requests=${2:-8} concurrency=${3:-2}
python=${PYTHON:-.venv/bin/python}
tokenizer=${TOKENIZER:-$("$python" -m serving.models)}
environments=.load-generators
results=$environments/results
model=$(curl --fail --silent --show-error "$url/v1/models" |
  "$python" -c 'import json, sys; print(json.load(sys.stdin)["data"][0]["id"])')

# install NAME PACKAGE...
install() {
  local environment=$environments/$1
  [ -x "$environment/bin/$1" ] && return
  "$python" -m venv "$environment"
  "$environment/bin/python" -m pip --disable-pip-version-check install --quiet "${@:2}"
}

# completed REPORT EXPRESSION: the expression, over the report as `r`, must be the number of requests.
completed() {
  "$python" - "$1" "$2" "$requests" <<'PYTHON'
import json, sys

report, expression, wanted = sys.argv[1:]
with open(report) as file:
    done = eval(expression, {"r": json.load(file)})
print(f"{report}: {done:.0f} of {wanted} requests")
sys.exit(done != int(wanted))
PYTHON
}

mkdir -p "$results"
# guidellm wants torch. Without its version, pip would fetch another one than the service's.
install guidellm guidellm==0.8.1 "$(grep '^torch==' constraints.txt)"
"$environments/guidellm/bin/guidellm" run --disable-progress \
  --backend "kind=openai_http,target=$url" --tokenizer "kind=hf_auto,model=$tokenizer" \
  --profile "kind=concurrent,streams=$concurrency" --constraint "kind=max_requests,count=$requests" \
  --data kind=synthetic_text,prompt_tokens=64,output_tokens=32 \
  --output kind=console --output "kind=json,path=$results/guidellm.json"
completed "$results/guidellm.json" 'r["benchmarks"][0]["metrics"]["request_totals"]["successful"]'

install aiperf aiperf==0.13.0
"$environments/aiperf/bin/aiperf" profile --ui none \
  --model "$model" --url "$url" --endpoint-type chat --streaming --tokenizer "$tokenizer" \
  --concurrency "$concurrency" --request-count "$requests" \
  --synthetic-input-tokens-mean 64 --output-tokens-mean 32 --artifact-dir "$results/aiperf"
completed "$results/aiperf/profile_export_aiperf.json" 'r["request_count"]["avg"]'
