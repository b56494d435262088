#!/usr/bin/env bash
# Gets what muster is built from. Does nothing where all of it is there.
#
#   scripts/setup.sh [--quiet] [control] [tests] [engine] [environments]
#
#   control  compiler, cmake, ninja and the libraries of the control plane (the default)
#   tests    all the others, GoogleTest, Google Benchmark, and a virtual environment for the Python tests
#   engine   LibTorch, from the torch of python3 where that is new enough
#   environments  gRPC, for muster serve-environments
#
# MUSTER_SETUP=never      only check; say what is missing and how to get it
# MUSTER_SETUP_VERBOSE=1  show the output of every step (otherwise it goes to .muster/setup.log alone)
# MUSTER_PYTHON=COMMAND   the Python to use instead of python3
#
# Exit status: 0 all there, 1 a step failed, 2 something is missing and may not be installed here.
set -euo pipefail

root=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
state=$root/.muster
log=$state/setup.log

source "$root/scripts/tools.sh"
source "$root/scripts/setup_packages.sh"
source "$root/scripts/setup_python.sh"

say() { printf 'muster setup: %s\n' "$*" >&2; }

# fail WHAT REMEDY: shows the end of the log and ends.
fail() {
  if [[ -s $log ]]; then tail -n 20 "$log" >&2; fi
  say "$1; all output is in $log"
  say "$2"
  exit 1
}

run_logged() {
  printf '\n$ %s\n' "$*" >>"$log"
  if [[ ${MUSTER_SETUP_VERBOSE:-} == 1 ]]; then
    "$@" 2>&1 </dev/null | tee -a "$log" >&2
  else
    "$@" >>"$log" 2>&1 </dev/null
  fi
}

may_install() { [[ ${MUSTER_SETUP:-} != never ]]; }

# Called before the first change: one set-up at a time, a fresh log.
begin_changes() {
  if [[ -n ${changing:-} ]]; then return 0; fi
  changing=yes
  if ! mkdir -p "$state" || ! exec 7>>"$state/.lock"; then
    say "cannot write to $state: make $root writable for $(id -un), or work in a clone of your own"
    exit 1
  fi
  if ! flock -n 7; then
    say "another set-up is running; waiting for it"
    flock 7
  fi
  : >"$log"
}

read_arguments() {
  local argument
  quiet="" control="" tests="" engine="" environments=""
  for argument; do
    case $argument in
      --quiet) quiet=yes ;;
      control) control=yes ;;
      tests) control=yes tests=yes engine=yes ;;
      engine) engine=yes ;;
      environments) environments=yes ;;
      -h | --help)
        sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$root/scripts/setup.sh"
        exit 0
        ;;
      *)
        say "unknown component '$argument'; known are: control, tests, engine, environments"
        exit 2
        ;;
    esac
  done
  if [[ -z $control$tests$engine$environments ]]; then control=yes; fi
  case ${MUSTER_SETUP:-} in
    "" | never) ;;
    *)
      say "MUSTER_SETUP=$MUSTER_SETUP is not known; leave it unset, or set it to never"
      exit 2
      ;;
  esac
}

main() {
  read_arguments "$@"
  if [[ -n $tests$engine ]]; then read_python; fi
  set_up_packages
  if [[ -n $engine ]]; then set_up_torch; fi
  if [[ -n $tests ]]; then set_up_test_environment; fi
  if [[ -n ${changing:-} ]]; then
    say "done in $SECONDS s"
  elif [[ -z $quiet ]]; then
    say "everything is there (${control:+control }${tests:+tests }${engine:+engine }${environments:+environments }checked in $SECONDS s)"
  fi
}

main "$@"
