# shellcheck shell=bash
# Configures and builds a preset: one build at a time, output in a log, progress on standard error. To be sourced.

build_scripts=${BASH_SOURCE[0]%/*}
source "$build_scripts/release_stamp.sh"
source "$build_scripts/stoppable.sh"
source "$build_scripts/tools.sh"

say() { printf 'muster: %s\n' "$*" >&2; }

# build_release ROOT: sets up, builds muster and records which sources it was made from.
# Returns 1 for a failed build, 2 for missing tools that may not be installed.
build_release() { build_program "$1" release "$release_program" "$release_stamp" control; }

# build_worker ROOT: the same for muster-worker, which needs LibTorch.
build_worker() { build_program "$1" worker "$worker_program" "$worker_stamp" control engine; }

# build_environments ROOT: the same for muster-environments, in the folder of the release, where most of it is built already. The folder is
# configured again, as gRPC may have come since.
build_environments() {
  rm -f "$1/build/release/.muster-configured"
  build_program "$1" environments "$environments_program" "$environments_stamp" control environments
}

# build_program ROOT PRESET PROGRAM STAMP COMPONENT...: COMPONENTs are what scripts/setup.sh brings.
build_program() {
  local root=$1 preset=$2 program=$3 stamp=$4
  shift 4
  lock_builds "$root" || return 1
  # The last holder of the lock may have done the work.
  if program_is_current "$root" "$program" "$stamp"; then
    unlock_builds
    return 0
  fi
  "$root/scripts/setup.sh" --quiet "$@" || return $?

  local started=$root/build/$(folder_of "$preset")/.muster-build-started
  local -a sources
  list_release_sources "$root"
  mkdir -p "${started%/*}" || return 1
  rm -f "$root/$stamp"
  # Edits made from here on are newer than the mark, and so are seen by the next start.
  echo "${sources[*]}" >"$started" || return 1
  build_preset "$root" "$preset" || return 1
  if [[ ! -x $root/$program ]]; then
    say "the build succeeded, but made no $root/$program; delete ${started%/*} and run again"
    return 1
  fi
  mv "$started" "$root/$stamp" || return 1
  unlock_builds
}

# The lock is descriptor 9. The build's own processes inherit it: where this script is killed outright, the next one waits
# until the last of them has ended.
lock_builds() {
  local root=$1
  if ! mkdir -p "$root/build" || ! exec 9>>"$root/build/.lock"; then
    say "cannot write to $root/build: make the folder writable for $(id -un), or work in a clone of your own"
    return 1
  fi
  if ! flock -n 9; then
    say "another build is running in $root/build; waiting for it"
    flock 9
  fi
}

unlock_builds() { exec 9>&-; }

# folder_of PRESET: below build/. Two build presets share a folder where one is more of the other.
folder_of() { if [[ $1 == environments ]]; then echo release; else echo "$1"; fi; }

# build_preset ROOT PRESET: brings the preset's folder up to date. The caller holds the lock.
build_preset() {
  local root=$1 preset=$2
  local folder
  folder=$root/build/$(folder_of "$preset")
  local log=$folder/muster-build.log
  local started=$SECONDS
  mkdir -p "$folder" && : >"$log" || return 1
  if ! is_configured "$root" "${folder##*/}"; then
    say "configuring $preset (log: $log)"
    rm -f "$folder/.muster-configured"
    if ! run_stoppable configure_preset "$root" "${folder##*/}" "$log"; then
      show_failure "configuring $preset failed" "$log"
      return 1
    fi
    : >"$folder/.muster-configured"
  fi
  say "building $preset$(expected_time "$folder" "$preset") (log: $log)"
  if ! run_stoppable run_build "$root" "$preset" "$log"; then
    show_failure "building $preset failed" "$log"
    return 1
  fi
  say "built $preset in $((SECONDS - started)) s"
}

# expected_time FOLDER PRESET: how long a build from scratch takes, without a compiler cache.
expected_time() {
  local seconds cores
  case $2 in # of one core, measured with g++ 12
    release) seconds=440 ;;
    environments) seconds=30 ;;
    worker) seconds=260 ;;
    engine) seconds=2300 ;;
    *) return 0 ;;
  esac
  [[ ! -e $1/.ninja_log ]] || return 0
  cores=$(nproc 2>/dev/null) || cores=1
  seconds=$((seconds / cores))
  if ((seconds < 90)); then
    printf ', which takes up to %d seconds the first time' "$seconds"
  else
    printf ', which takes up to %d minutes the first time' "$(((seconds + 59) / 60))"
  fi
}

# True where ninja can bring the folder up to date by itself: it was configured completely, from the present presets, for
# this place, and the tools it recorded are still there.
is_configured() {
  local root=$1 folder=$1/build/$2 line
  [[ -f $folder/build.ninja && -f $folder/CMakeCache.txt && -f $folder/.muster-configured ]] || return 1
  [[ ! $root/CMakePresets.json -nt $folder/.muster-configured ]] || return 1
  while IFS= read -r line; do
    case $line in
      CMAKE_HOME_DIRECTORY:*=*) [[ ${line#*=} -ef $root ]] || return 1 ;;
      CMAKE_COMMAND:*=* | CMAKE_MAKE_PROGRAM:*=* | CMAKE_CXX_COMPILER:*=*) [[ -x ${line#*=} ]] || return 1 ;;
    esac
  done <"$folder/CMakeCache.txt"
}

configure_preset() {
  local root=$1 preset=$2 log=$3 compiler
  compiler=$(find_compiler) || compiler=${CXX:-c++}
  cd "$root" && CXX=$compiler cmake --fresh --preset "$preset" >>"$log" 2>&1
}

run_build() {
  local root=$1 preset=$2 log=$3
  set -o pipefail
  cd "$root" && cmake --build --preset "$preset" 2>&1 | record_progress "$log"
}

# Copies standard input to the log; on a terminal shows the latest "[3/80] ..." in one line that is overwritten.
record_progress() {
  local log=$1 line width=80
  if [[ ! -t 2 ]]; then
    cat >>"$log"
    return
  fi
  # A terminal that does not know its size says 0.
  read -r _ width < <(stty size <&2 2>/dev/null) && ((width > 1)) || width=80
  while IFS= read -r line || [[ -n $line ]]; do
    printf '%s\n' "$line" >&8
    if [[ $line == \[*/*\]* ]]; then printf '\r\033[K%s' "${line:0:width-1}" >&2; fi
  done 8>>"$log"
  printf '\r\033[K' >&2
}

show_failure() {
  tail -n 40 "$2" >&2
  say "$1: the end of its output is above, all of it is in $2"
}
