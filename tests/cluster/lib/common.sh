# What every script here shares: where things are, how to say something, how to wait. Sourced, never run.
# shellcheck shell=bash
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
STATE=$ROOT/.cluster
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/isvc-operator
TOOLS=$ROOT/tests/cluster/tools
HTTP_PORT=8080
HTTPS_PORT=8443
# What `make` exports; these are for a script that is run by itself.
: "${REGISTRY:=localhost/isvc-operator}" "${TAG:=$(sed -n 's/^version = "\(.*\)"/\1/p' "$ROOT/pyproject.toml")}"

say() { printf '%s\n' "$*" >&2; }

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

have() { command -v "$1" > /dev/null; }

wait_for() { # seconds, what, command...: until the command succeeds
  local deadline=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" > /dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || fail "timed out waiting for $what; see the logs in $STATE/log"
    sleep 0.2
  done
}

provider() { # how `up` made the cluster of this checkout: existing, kind or bare; nothing when there is none
  cat "$STATE/provider" 2> /dev/null || true
}

docker_runs() { have docker && docker info > /dev/null 2>&1; }

take_turns() { # script: with others who work on the same checkout at the same time; the script's file is the lock
  have flock || return 0
  exec 9< "$ROOT/tests/cluster/$1"
  flock 9
}

unless_there() { # path, command...: run the command that creates the path; who comes meanwhile, of any checkout, waits for it
  [ ! -e "$1" ] || return 0
  mkdir -p "$(dirname "$1")"
  (! have flock || flock 8; [ -e "$1" ] || "${@:2}") 8> "$1.lock" || exit 1
}

kubectl() { # on the cluster of this checkout
  "$(kubectl_binary)" --kubeconfig "$STATE/kubeconfig" "$@"
}

kubectl_binary() { # ours where it is built, else the one on PATH
  if [ -x "$(binary_path kubectl)" ]; then binary_path kubectl; else type -P kubectl || binary kubectl; fi
}

apply() { # manifests from standard input
  kubectl apply --server-side --force-conflicts --filename - > /dev/null
}

require_programs() { # program:Debian package ...
  local wanted missing=()
  for wanted in "$@"; do
    have "${wanted%%:*}" || missing+=("${wanted#*:}")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ] || ! have apt-get; then
    fail "install these first (the names are Debian's packages): ${missing[*]}"
  fi
  say "  installing ${missing[*]}"
  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${missing[@]}"; } \
    > "$STATE/apt.log" 2>&1 || fail "apt-get could not install ${missing[*]}; its log is $STATE/apt.log"
}
