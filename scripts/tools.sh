# shellcheck shell=bash
# Finds the build tools and compares their versions. To be sourced.

minimum_gcc=12
minimum_clang=16
minimum_cmake=3.25

# version_at_least 3.25.1 3.25: compares the first two numbers.
version_at_least() {
  [[ $1 =~ ^([0-9]+)(\.([0-9]+))? ]] || return 1
  local major=${BASH_REMATCH[1]} minor=${BASH_REMATCH[3]:-0}
  [[ $2 =~ ^([0-9]+)(\.([0-9]+))? ]] || return 1
  local least_major=${BASH_REMATCH[1]} least_minor=${BASH_REMATCH[3]:-0}
  ((10#$major > 10#$least_major || (10#$major == 10#$least_major && 10#$minor >= 10#$least_minor)))
}

# Prints "gcc 12.2.0" or "clang 16.0.6"; fails where the command is not a C++ compiler. The command may hold several words,
# as CXX may ("ccache g++").
describe_compiler() {
  local -a command
  read -ra command <<<"$1"
  local macros version
  macros=$("${command[@]}" -dM -E -x c++ /dev/null 2>/dev/null) || return 1
  if [[ $macros =~ '#define __clang_major__ '([0-9]+) ]]; then
    version=${BASH_REMATCH[1]}
    [[ $macros =~ '#define __clang_minor__ '([0-9]+) ]] && version+=.${BASH_REMATCH[1]}
    echo "clang $version"
  elif [[ $macros =~ '#define __GNUC__ '([0-9]+) ]]; then
    version=${BASH_REMATCH[1]}
    [[ $macros =~ '#define __GNUC_MINOR__ '([0-9]+) ]] && version+=.${BASH_REMATCH[1]}
    echo "gcc $version"
  else
    return 1
  fi
}

compiler_is_new_enough() {
  local kind version
  read -r kind version <<<"$1"
  case $kind in
    gcc) version_at_least "$version" "$minimum_gcc" ;;
    clang) version_at_least "$version" "$minimum_clang" ;;
    *) return 1 ;;
  esac
}

# Prints the compiler to build with: CXX where it is set (and no other), else the first that is new enough.
find_compiler() {
  local candidate description
  local -a candidates=(c++ g++ g++-15 g++-14 g++-13 g++-12 clang++)
  if [[ -n ${CXX:-} ]]; then candidates=("$CXX"); fi
  for candidate in "${candidates[@]}"; do
    description=$(describe_compiler "$candidate") || continue
    if compiler_is_new_enough "$description"; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

# Prints what stands where a new enough compiler should be: "gcc 11.4" or "none".
describe_default_compiler() {
  describe_compiler "${CXX:-c++}" || describe_compiler "${CXX:-g++}" || echo none
}

# Prints the version of a tool whose --version starts with its name or its number; "none" where there is no such tool.
tool_version() {
  local text
  text=$("$1" --version 2>/dev/null) || text=""
  if [[ $text =~ ([0-9]+\.[0-9]+[0-9.]*) ]]; then echo "${BASH_REMATCH[1]}"; else echo none; fi
}

find_ninja() {
  local name
  for name in ninja ninja-build; do
    if [[ $(tool_version "$name") != none ]]; then
      echo "$name"
      return 0
    fi
  done
  return 1
}
