# shellcheck shell=bash
# Compiler, build tools and libraries: what is missing, and installing it with apt-get. Sourced by setup.sh.

# need DESCRIPTION [PACKAGE]: notes something missing; without a package, no package manager brings it.
need() {
  descriptions+=("$1")
  if [[ -n ${2:-} ]]; then packages+=("$2"); fi
}

# Sets `descriptions` and `packages` to what is missing.
find_missing() {
  descriptions=() packages=()
  if [[ -n $control ]]; then find_missing_for_control; fi
  if [[ -n $tests ]]; then find_missing_for_tests; fi
  if [[ -n $tests$environments ]]; then find_missing_for_environments; fi
}

find_missing_for_control() {
  local compiler version
  if ! compiler=$(find_compiler); then
    need "a C++20 compiler: g++ $minimum_gcc or newer (found: $(describe_default_compiler)${CXX:+ as CXX=$CXX})" g++
    compiler=""
  fi
  version=$(tool_version cmake)
  if ! version_at_least "$version" "$minimum_cmake"; then
    need "cmake $minimum_cmake or newer (found: $version)" cmake
  fi
  find_ninja >/dev/null || need "ninja" ninja-build
  find_missing_headers "$compiler" \
    yaml-cpp/yaml.h=libyaml-cpp-dev nlohmann/json.hpp=nlohmann-json3-dev CLI/CLI.hpp=libcli11-dev \
    fmt/format.h=libfmt-dev pcre2.h=libpcre2-dev
}

find_missing_for_tests() {
  local compiler
  compiler=$(find_compiler) || compiler=""
  find_missing_headers "$compiler" gtest/gtest.h=libgtest-dev benchmark/benchmark.h=libbenchmark-dev
  [[ $(tool_version readelf) != none ]] || need "readelf" binutils
  command -v tmux >/dev/null || need "tmux" tmux
  find_missing_python_parts
}

# gRPC, for muster serve-environments alone.
find_missing_for_environments() {
  local compiler
  compiler=$(find_compiler) || compiler=""
  find_missing_headers "$compiler" grpcpp/grpcpp.h=libgrpc++-dev google/protobuf/message_lite.h=libprotobuf-dev
  command -v protoc >/dev/null || need "protoc" protobuf-compiler
  command -v grpc_cpp_plugin >/dev/null || need "protoc's plugin for gRPC (grpc_cpp_plugin)" protobuf-compiler-grpc
}

# find_missing_headers COMPILER HEADER=PACKAGE...: asks the preprocessor, which knows the include path. Without a compiler
# the system's folder is looked at.
find_missing_headers() {
  local compiler=$1 pair prefix package question="" answer
  shift
  local -a command include_options=()
  if [[ -z $compiler ]]; then
    for pair; do
      [[ -e /usr/include/${pair%=*} ]] || need "the header ${pair%=*}" "${pair#*=}"
    done
    return 0
  fi
  local -a prefixes
  IFS=: read -ra prefixes <<<"${CMAKE_PREFIX_PATH:-}"
  for prefix in "${prefixes[@]}"; do include_options+=("-I$prefix/include"); done
  for pair; do
    question+="#if !__has_include(<${pair%=*}>)"$'\n'"\"${pair#*=}\""$'\n'"#endif"$'\n'
  done
  read -ra command <<<"$compiler"
  answer=$("${command[@]}" "${include_options[@]}" -E -P -x c++ - <<<"$question")
  for pair; do
    package=${pair#*=}
    if [[ $answer == *"\"$package\""* ]]; then need "the header ${pair%=*}" "$package"; fi
  done
}

# Sets `privilege` to the words that make apt-get allowed, or `obstacle` to why it is not.
find_privilege() {
  privilege=() obstacle=""
  if ! may_install; then
    obstacle="MUSTER_SETUP=never"
  elif ! command -v apt-get >/dev/null; then
    obstacle="there is no apt-get here"
  elif ((EUID == 0)); then
    :
  elif ! command -v sudo >/dev/null; then
    obstacle="$(id -un) is not root and there is no sudo"
  elif sudo -n true 2>/dev/null; then
    privilege=(sudo -n)
  elif [[ -t 0 && -t 2 ]]; then
    privilege=(sudo)
  else
    obstacle="sudo asks for a password and there is no terminal to ask on"
  fi
}

say_missing() {
  say "missing:"
  printf '  %s\n' "${descriptions[@]}" >&2
}

# Says what is missing and the one command that brings it, and ends.
refuse_missing() {
  local why=$1 prefix=""
  say_missing
  ((EUID == 0)) || prefix="sudo "
  if ((${#packages[@]} == 0)); then
    say "not installed: $why. No package brings this; get it, and run again."
  elif command -v apt-get >/dev/null; then
    say "not installed: $why. To get it, run:"
    printf '  %sapt-get update && %sapt-get install -y --no-install-recommends %s\n' "$prefix" "$prefix" "${packages[*]}" >&2
  else
    say "not installed: $why. Install what these Debian packages hold, and run again:"
    printf '  %s\n' "${packages[*]}" >&2
  fi
  exit 2
}

set_up_packages() {
  find_missing
  if ((${#descriptions[@]} == 0)); then return 0; fi
  find_privilege
  if [[ -n $obstacle ]]; then refuse_missing "$obstacle"; fi
  if ((${#packages[@]} == 0)); then refuse_missing "apt-get has no package for it"; fi
  begin_changes
  # The last holder of the lock may have done the work.
  find_missing
  if ((${#packages[@]} > 0)); then install_packages; fi
  find_missing
  if ((${#descriptions[@]} > 0)); then refuse_missing "apt-get brought no version that is new enough"; fi
}

# apt_get ARGUMENTS...: with the rights found before, in English, asking nothing, waiting for other package managers.
apt_get() {
  "${privilege[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -o DPkg::Lock::Timeout=300 "$@"
}

# Sets `useful` to what is not worth an installation of its own, but comes along with one: ccache makes later builds faster,
# and with the shells the tests of their completions run.
find_useful() {
  local program
  useful=()
  for program in ccache ${tests:+zsh fish}; do
    command -v "$program" >/dev/null || useful+=("$program")
  done
}

install_packages() {
  local -a wanted=("${packages[@]}")
  local size answer
  find_useful
  wanted+=("${useful[@]}")
  say_missing
  say "reading the package lists (apt-get update)"
  # One unreachable third-party list need not matter: the installation will show.
  run_logged apt_get update || say "apt-get update reported problems (see $log); going on with the lists there are"
  answer=$(apt_get install --assume-no --no-install-recommends "${wanted[@]}" 2>>"$log" || true)
  size="an unknown amount"
  if [[ $answer =~ Need\ to\ get\ ([^a-z]*[a-zA-Z]?B[^a-z]*[a-zA-Z]*)\ of\ archives ]]; then size=${BASH_REMATCH[1]}; fi
  say "installing with apt-get: ${wanted[*]} (download: $size)"
  run_logged apt_get install -y --no-install-recommends "${wanted[@]}" ||
    fail "apt-get could not install: ${wanted[*]}" \
      "check the network and the package lists (apt-get update), or install these yourself, and run again"
}
