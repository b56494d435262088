# shellcheck shell=bash
# Tells whether the two programs were built from the present sources. To be sourced.
# This is the path of every start of ./muster, so it starts one process for each (find) and nothing else.

release_program=build/release/apps/cli/muster
release_stamp=build/release/.muster-built
worker_program=build/worker/apps/worker/muster-worker
worker_stamp=build/worker/.muster-built
environments_program=build/release/apps/environments/muster-environments
environments_stamp=build/release/.muster-environments-built

# Sets `sources` to the files and folders that the programs are made from.
list_release_sources() {
  local root=$1 path
  sources=()
  for path in CMakeLists.txt CMakePresets.json cmake src apps engine; do
    if [[ -e $root/$path ]]; then sources+=("$path"); fi
  done
}

release_is_current() { program_is_current "$1" "$release_program" "$release_stamp"; }
worker_is_current() { program_is_current "$1" "$worker_program" "$worker_stamp"; }
environments_are_current() { program_is_current "$1" "$environments_program" "$environments_stamp"; }

# program_is_current ROOT PROGRAM STAMP. The stamp's time is the moment before the build began; its text is the list of
# sources there were, so that one that comes or goes as a whole counts as a change. Folders are compared too: a deleted
# file makes its folder newer.
program_is_current() {
  local root=$1 program=$2 stamp=$3 recorded="" newer
  [[ -x $root/$program && -f $root/$stamp ]] || return 1
  local -a sources
  list_release_sources "$root"
  read -r recorded <"$root/$stamp" || return 1
  [[ $recorded == "${sources[*]}" ]] || return 1
  newer=$(find -H "${sources[@]/#/$root/}" -newer "$root/$stamp" -print -quit) || return 1
  [[ -z $newer ]]
}

# sweep_trains ARGUMENT...: whether the trials of a sweep are muster's own training: no file among its arguments, or of the sweep that is
# named, has a command of its own.
sweep_trains() {
  local argument file line own='^[[:space:]"{]*(command|program)"?[[:space:]]*:'
  for argument; do
    for file in "${argument#sweep=}" "sweeps/${argument#run=}/sweep.yaml"; do
      if [[ ! -f $file ]]; then continue; fi
      while IFS= read -r line || [[ -n $line ]]; do
        if [[ $line =~ $own ]]; then return 1; fi
      done <"$file"
    done
  done
}

# worker_is_needed ROOT COMMAND...: whether a command computes, and so needs LibTorch and muster-worker. Doctor tries the
# worker where LibTorch is there already, and does not make anyone wait for it.
worker_is_needed() {
  local root=$1 argument
  shift
  for argument; do
    case $argument in -h | --help | --dry-run | --print-config) return 1 ;; esac
  done
  case ${1:-} in
    collect | evaluate | generate | run | train) return 0 ;;
    sweep | sweep-multi) [[ ${2:-} != best && ${2:-} != serve ]] && sweep_trains "$@" ;;
    doctor) [[ -f $root/.muster/torch-location ]] ;;
    *) return 1 ;;
  esac
}

# environments_are_needed COMMAND...: whether a command serves environments over gRPC, or asks a server for one: a word says so, or a file
# that is named.
environments_are_needed() {
  local argument file
  for argument; do
    case $argument in
      -h | --help | --print-config) return 1 ;;
    esac
  done
  [[ ${1:-} != serve-environments ]] || return 0
  for argument; do
    if [[ $argument == *environment.server=* ]]; then return 0; fi
    file=${argument#--config=}
    if [[ $file != *.y*ml && $file != *.json || ! -f $file ]]; then continue; fi
    if [[ $(<"$file") == *server* ]]; then return 0; fi
  done
  [[ -n ${MUSTER_ENVIRONMENT_SERVER:-} ]]
}
