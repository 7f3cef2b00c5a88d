# Builds images with docker, podman or buildah, whichever is there, and brings them to the cluster. An image whose inputs
# have not changed is neither built nor brought again: the digest of its inputs is its label.
# shellcheck shell=bash

LABEL=isvc-operator.inputs
STAND_IN=localhost/isvc-operator/python:bookworm-1
export BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot} STORAGE_DRIVER=${STORAGE_DRIVER:-overlay}

require_builder() { # docker and podman are the user's to install; buildah needs no daemon and no setting up
  docker_runs || have podman || require_programs buildah:buildah
}

builder() {
  if docker_runs; then echo docker
  elif have podman; then echo podman
  else echo buildah
  fi
}

# Sets, for an image: dockerfile, sources (the files that go into it), context (the folder that its Dockerfile copies
# from) and base (the build argument that names what it is built on, if it has one).
describe() { # name
  local built="pyproject.toml constraints.txt first-party.txt uv.txt"
  local server="$built runtime-images/common/src runtime-images"
  local mnist=examples/mnist_transformer
  dockerfile=runtime-images/$1/Dockerfile context=$ROOT base=
  case $1 in
    torch ) sources="constraints.txt uv.txt" base="TORCH_INDEX=${TORCH_INDEX:-}" ;;
    torchserve | mar ) sources="$server/$1/src" base="TORCH_IMAGE=$REGISTRY/torch:$TAG" ;;
    onnx ) sources="$server/mar/src" ;;
    transformer )
      sources="constraints.txt uv.txt runtime-images/common/src/data_plane transformer_sdk runtime-images/transformer" ;;
    storage-initializer )
      dockerfile=storage_initializer/Dockerfile
      sources="pyproject.toml constraints.txt uv.txt runtime-images/common/src/model_archive storage_initializer" ;;
    operator )
      dockerfile=operator/Dockerfile
      sources="pyproject.toml constraints.txt uv.txt operator/src/isvc_operator"
      for module in __init__ errors schemes uri; do sources+=" storage_initializer/$module.py"; done ;;
    dashboard )
      dockerfile=operator/dashboard.Dockerfile sources=operator/src/isvc base="OPERATOR_IMAGE=$REGISTRY/operator:$TAG" ;;
    mnist-transformer )
      dockerfile=$mnist/Dockerfile sources=$mnist context=$ROOT/$mnist base="BASE_IMAGE=$REGISTRY/transformer:$TAG" ;;
    mnist-transformer-kserve ) dockerfile=$mnist/Dockerfile.kserve sources=$mnist context=$ROOT/$mnist ;;
    mlserver )
      context=$ROOT/tests/e2e/cluster/mlserver
      dockerfile=tests/e2e/cluster/mlserver/Dockerfile sources=tests/e2e/cluster/mlserver/requirements.txt ;;
    v1-server )
      context=$ROOT/tests/bench/migration
      dockerfile=tests/bench/migration/Dockerfile sources=tests/bench/migration/server.py ;;
    * ) fail "there is no image $1" ;;
  esac
}

inputs_digest() { # name → one digest of all that the image is made of
  local dockerfile sources context base
  describe "$1"
  # shellcheck disable=SC2086 # the names are words
  (cd "$ROOT" && base_digest "$base" &&
    find "$dockerfile" $sources -type f -not -path '*/__pycache__/*' -print0 |
      sort -z | xargs -0 sha256sum) | sha256sum | cut -c1-16
}

base_digest() { # build argument → what decides over the part of the image that is not in the repository
  case $1 in
    *_INDEX=* ) echo "${1#*=}" ;;
    *_IMAGE=* ) label_of "${1#*=}" ;;
  esac
}

label_of() { # image → the digest that it was built from; nothing where there is no such image
  case $(builder) in
    buildah ) buildah inspect --type image --format "{{index .OCIv1.Config.Labels \"$LABEL\"}}" "$1" ;;
    * ) "$(builder)" inspect --format "{{index .Config.Labels \"$LABEL\"}}" "$1" ;;
  esac 2> /dev/null || true
}

build_image() { # name
  local name=$1 image=$REGISTRY/$1:$TAG started=$SECONDS dockerfile sources context base digest
  describe "$name"
  digest=$(inputs_digest "$name")
  if [ "$(label_of "$image")" = "$digest" ]; then
    say "$image is up to date"
    return
  fi
  say "building $image"
  replaced=$(image_id "$image")
  run_build "$image" "$context" --label "$LABEL=$digest" --file "$ROOT/$dockerfile" ${base:+--build-arg "$base"} > "$STATE/log/image-$name.log" 2>&1 ||
    fail "could not build $image; the builder's log is $STATE/log/image-$name.log"
  # gigabytes that nobody would miss until the disk is full; a container may still hold them
  if [ -n "$replaced" ] && [ "$replaced" != "$(image_id "$image")" ]; then "$(builder)" rmi "$replaced" > /dev/null 2>&1 || true; fi
  say "  built in $((SECONDS - started)) s"
}

run_build() { # image, context, arguments...
  local image=$1 context=$2 certificates=()
  shift 2
  if [ "$(builder)" = docker ]; then
    docker build --quiet --tag "$image" "$@" "$context"
    return
  fi
  # The certificates that this host trusts are lent to the build, for proxies with one of their own; the image keeps none.
  if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
    certificates=(--volume /etc/ssl/certs:/etc/ssl/certs:ro
      --build-arg PIP_CERT=/etc/ssl/certs/ca-certificates.crt --build-arg SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt)
  fi
  if [ -n "${PYTHON_IMAGE:-}" ]; then set -- --build-arg "PYTHON_IMAGE=$PYTHON_IMAGE" "$@"; fi
  "$(builder)" build --tag "$image" --layers "${certificates[@]}" "$@" "$context"
}

need_python_image() { # where no registry answers, a Debian of debootstrap stands for the official image
  [ "$(builder)" = buildah ] || return 0
  PYTHON_IMAGE=$(sed -n 's/^ARG PYTHON_IMAGE=//p' "$ROOT/operator/Dockerfile") # the same in all of them
  has_image "$PYTHON_IMAGE" && return
  if ! has_image "$STAND_IN"; then
    timeout 60 buildah pull --quiet "$PYTHON_IMAGE" > /dev/null 2>&1 && return
    make_stand_in
  fi
  PYTHON_IMAGE=$STAND_IN
}

has_image() { # image, by buildah
  buildah inspect --type image "$1" > /dev/null 2>&1
}

make_stand_in() {
  local root
  root=$CACHE/python-bookworm-1
  [ -d "$root" ] || bootstrap_python "$root"
  say "making $STAND_IN from $root, because no registry responds"
  printf 'FROM scratch\nCOPY . /\nENV PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin\n' |
    buildah build --quiet --tag "$STAND_IN" --file - "$root" > /dev/null
}

bootstrap_python() { # folder
  require_programs debootstrap:debootstrap
  local started=$SECONDS partial=$1.partial
  say "installing Debian's Python into $1"
  rm -rf "$partial"
  debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$partial" > "$STATE/log/debootstrap.log" 2>&1 ||
    fail "debootstrap failed; its log is $STATE/log/debootstrap.log"
  ln -s python3 "$partial/usr/bin/python"
  rm -rf "$partial"/var/{cache,lib}/apt/* "$partial"/usr/share/{doc,man,info,locale}/* "$partial"/var/log/*
  mv "$partial" "$1"
  say "  installed in $((SECONDS - started)) s"
}

bring_image() { # name: to the nodes, unless they have it
  local image=$REGISTRY/$1:$TAG digest started=$SECONDS
  digest=$(image_id "$image")
  if [ "$(cat "$STATE/images/$1" 2> /dev/null)" = "$(provider) $digest" ] && node_has "$image"; then
    return
  fi
  case $(provider) in
    bare ) import_into_containerd "$image" ;;
    kind ) kind load docker-image "$image" --name isvc-operator > /dev/null 2>&1 || fail "kind could not load $image" ;;
    existing ) push "$image" ;;
  esac
  mkdir -p "$STATE/images"
  echo "$(provider) $digest" > "$STATE/images/$1"
  say "loaded $image into the cluster in $((SECONDS - started)) s"
}

image_id() { # image; nothing where there is none
  "$(builder)" images --quiet --no-trunc "$1" 2> /dev/null || true
}

node_has() { # image
  [ "$(provider)" != bare ] || [ -n "$(node_ctr images ls -q "name==$1")" ]
}

import_into_containerd() { # image; by a pipe, as the archive of a torch image is larger than many a /tmp
  share_layers "$1" > "$STATE/log/share.log" 2>&1 || archive "$1" | node_ctr images import - > /dev/null
}

share_layers() { # image: no copy at all, where buildah and the node keep their layers on one file system
  local store
  [ "$(builder)" = buildah ] || return 1
  store=$(buildah info --format '{{.store.GraphRoot}}')
  # buildah mounts its layers over themselves, and no link can cross a mount: do without it in a namespace of our own
  unshare --mount bash -c 'umount --lazy "$0/overlay" 2> /dev/null; exec "$@"' "$store" \
    python3 "$ROOT/tests/cluster/lib/share_image.py" "$1" "$store" ctr --address "$CONTAINERD_SOCKET" --namespace k8s.io
}

archive() { # image → its archive
  if [ "$(builder)" = docker ]; then docker save "$1"; else "$(builder)" push --quiet "$1" "docker-archive:/dev/stdout:$1"; fi
}

push() { # image
  case $REGISTRY in
    localhost/* ) fail "the cluster of \$KUBECONFIG pulls its images: make images REGISTRY=registry.of.yours/isvc" ;;
  esac
  "$(builder)" push "$1" > /dev/null || fail "could not push $1; log in to the registry first"
}
