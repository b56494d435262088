# shellcheck shell=bash
# Tells whether build/release was made from the present sources. To be sourced.
# This is the path of every start of ./muster, so it starts one process (find) and nothing else.

release_program=build/release/apps/cli/muster
release_stamp=build/release/.muster-built

# Sets `sources` to the files and folders that the release build is made from.
list_release_sources() {
  local root=$1 path
  sources=()
  for path in CMakeLists.txt CMakePresets.json cmake src apps engine; do
    if [[ -e $root/$path ]]; then sources+=("$path"); fi
  done
}

# The stamp's time is the moment before the build began; its text is the list of sources there were, so that one that
# comes or goes as a whole counts as a change. Folders are compared too: a deleted file makes its folder newer.
release_is_current() {
  local root=$1 recorded="" newer
  [[ -x $root/$release_program && -f $root/$release_stamp ]] || return 1
  local -a sources
  list_release_sources "$root"
  read -r recorded <"$root/$release_stamp" || return 1
  [[ $recorded == "${sources[*]}" ]] || return 1
  newer=$(find -H "${sources[@]/#/$root/}" -newer "$root/$release_stamp" -print -quit) || return 1
  [[ -z $newer ]]
}
