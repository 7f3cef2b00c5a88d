# Images without a builder.
# shellcheck shell=bash

scratch_image() { # name, static binary → an image archive that holds only this program
  local dir program
  dir=$(mktemp -d)
  program=$(basename "$2")
  tar -C "$(dirname "$2")" --owner=0 --group=0 -cf "$dir/layer.tar" "$program"
  printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":["/%s"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$(go_architecture)" "$program" "$(sha256sum < "$dir/layer.tar" | cut -d' ' -f1)" > "$dir/config.json"
  printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$1" > "$dir/manifest.json"
  tar -C "$dir" -cf - manifest.json config.json layer.tar
  rm -r "$dir"
}

go_architecture() { # as image manifests name it
  case $(uname -m) in
    x86_64 ) echo amd64 ;;
    aarch64 ) echo arm64 ;;
    * ) uname -m ;;
  esac
}
