# Long-running programs, each known by a file that holds its pid and its command line. A pid counts only while it still
# is that command, so a number that the kernel gave to another process is never mistaken for ours.
# shellcheck shell=bash

daemon() { # name, command...: start it unless it runs
  local name=$1
  shift
  if running "$name"; then return; fi
  mkdir -p "$STATE/run" "$STATE/log"
  setsid nohup "$@" >> "$STATE/log/$name.log" 2>&1 < /dev/null 9>&- &
  printf '%s\n%s\n' $! "$*" > "$STATE/run/$name"
  say "  started $name"
}

running() { # name
  local pid command
  { read -r pid && read -r command; } 2> /dev/null < "$STATE/run/$1" || return 1
  # just forked, it may still be the shell, setsid or nohup on the way to the command
  [[ "$(tr '\0' ' ' 2> /dev/null < "/proc/$pid/cmdline")" == *"$command " ]]
}

stop() { # name...: ask all to end, and end those that have not within three seconds
  local name pids=() pid
  for name in "$@"; do
    if running "$name"; then pids+=("$(head -1 "$STATE/run/$name")"); fi
    rm -f "$STATE/run/$name"
  done
  for pid in "${pids[@]}"; do kill "$pid"; done
  for pid in "${pids[@]}"; do gone "$pid" || kill -KILL "$pid"; done
}

gone() { # pid
  local _
  for _ in {1..30}; do
    kill -0 "$1" 2> /dev/null || return 0
    sleep 0.1
  done
  return 1
}
