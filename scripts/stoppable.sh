# shellcheck shell=bash
# Runs a command so that stopping the script stops all of it. To be sourced.

# run_stoppable COMMAND...: runs it in a process group of its own, without standard input. INT, TERM and HUP sent to the
# script are passed on to the whole group; the script then ends with 128 + signal. Otherwise returns the command's status.
run_stoppable() {
  local status=0
  set -m
  "$@" </dev/null &
  stoppable_group=$!
  set +m
  trap 'stop_group INT 130' INT
  trap 'stop_group TERM 143' TERM
  trap 'stop_group HUP 129' HUP
  wait "$stoppable_group" || status=$?
  trap - INT TERM HUP
  return "$status"
}

# The group's leader may end before the rest of it; what is still there after ten seconds is killed.
stop_group() {
  local attempt
  trap '' INT TERM HUP
  kill -s "$1" -- "-$stoppable_group" 2>/dev/null || true
  wait "$stoppable_group" 2>/dev/null || true
  for ((attempt = 0; attempt < 200; ++attempt)); do
    kill -s 0 -- "-$stoppable_group" 2>/dev/null || exit "$2"
    sleep 0.05
  done
  kill -s KILL -- "-$stoppable_group" 2>/dev/null || true
  exit "$2"
}
