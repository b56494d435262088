// Each script asks `muster complete WORDS...` what could come next, so that it never has to change.
#include "cli/completion.hpp"

namespace muster::cli {
namespace {

// Bash treats = and : as ends of words: they are joined for muster, and cut off its answers.
constexpr std::string_view bash = R"script(# Completion of muster for bash: source <(muster completion bash)
_muster() {
  local program=${COMP_WORDS[0]/#\~/$HOME} word="" line candidate ended=1 i
  local -a words=() candidates=()
  local files=""
  for ((i = 1; i <= COMP_CWORD; ++i)); do
    if [[ ${COMP_WORDS[i]} == [=:]* && -n $word ]] || [[ $word == *[=:] && $ended == 0 ]]; then
      word+=${COMP_WORDS[i]}
    else
      if ((i > 1)); then words+=("$word"); fi
      word=${COMP_WORDS[i]}
    fi
    ended=0
  done
  words+=("$word")
  local typed=${COMP_WORDS[COMP_CWORD]}
  if [[ $typed == [=:] ]]; then typed=""; fi
  local before=${word:0:${#word}-${#typed}}
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      files=yes
      continue
    fi
    candidate=${line%%$'\t'*}
    candidates+=("${candidate#"$before"}")
  done < <("$program" complete "${words[@]}" 2>/dev/null)
  COMPREPLY=("${candidates[@]}")
  if [[ ${#candidates[@]} -gt 0 && ${candidates[0]} == *[=.] ]]; then compopt -o nospace 2>/dev/null; fi
  if [[ -n $files ]]; then
    if ((${#candidates[@]} == 0)); then compopt -o filenames 2>/dev/null; fi # it would put a backslash before =
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$typed")
  fi
}
complete -F _muster muster
)script";

constexpr std::string_view zsh = R"script(#compdef muster
# Completion of muster for zsh: source <(muster completion zsh), or as _muster in a folder of $fpath
_muster() {
  local line word help files=""
  local -a plain described open
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      files=yes
      continue
    fi
    word=${line%%$'\t'*}
    help=${line#*$'\t'}
    if [[ $word == *[=.] ]]; then
      open+=("$word")
    elif [[ -n $help ]]; then
      described+=("${word//:/\\:}:$help")
    else
      plain+=("$word")
    fi
  done < <("${words[1]/#\~/$HOME}" complete "${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( ${#described} )); then _describe -t commands muster described; fi
  if (( ${#plain} )); then compadd -- "${plain[@]}"; fi
  if (( ${#open} )); then compadd -S '' -- "${open[@]}"; fi
  if [[ -n $files ]]; then
    compset -P '*='
    _files
  fi
}
if [[ $funcstack[1] == _muster ]]; then _muster "$@"; else compdef _muster muster; fi
)script";

constexpr std::string_view fish = R"script(# Completion of muster for fish: muster completion fish | source
function __muster_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l program $words[1]
    for line in ($program complete $words[2..-1] "$typed" 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path "$typed"
        else
            printf '%s\n' $line
        end
    end
end
complete -c muster -f -a '(__muster_complete)'
)script";

}  // namespace

std::string_view completion_script(std::string_view shell) {
  if (shell == "bash") return bash;
  if (shell == "zsh") return zsh;
  if (shell == "fish") return fish;
  return {};
}

}  // namespace muster::cli
