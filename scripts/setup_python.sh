# shellcheck shell=bash
# Torch and the virtual environment. Sourced by setup.sh.

torch_to_install=torch==2.13.0
environment=$state/venv
requirements=$root/scripts/test-requirements.txt
requirements_alone=$root/scripts/test-requirements-alone.txt
requirements_apart=$root/scripts/test-requirements-apart.txt

# Sets `python`, `python_executable` and `python_version`, and whether it can make environments and has its headers.
read_python() {
  python=${MUSTER_PYTHON:-python3}
  local facts
  if ! facts=$("$python" -c '
import importlib.util, os, sys, sysconfig
print(os.path.abspath(sys.executable))
print("%d.%d" % sys.version_info[:2])
print("yes" if importlib.util.find_spec("ensurepip") and importlib.util.find_spec("venv") else "no")
print("yes" if os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")) else "no")
print(os.path.realpath(sys.executable))
' 2>/dev/null); then
    say "'$python' is not a working Python 3: install python3, or set MUSTER_PYTHON to one"
    exit 2
  fi
  { read -r python_executable && read -r python_version && read -r python_makes_environments &&
    read -r python_has_headers && read -r python_real_executable; } <<<"$facts"
  if ! version_at_least "$python_version" 3.10; then
    say "'$python' is Python $python_version; 3.10 or newer is needed: set MUSTER_PYTHON to one"
    exit 2
  fi
}

# Debian and Ubuntu ship these parts in packages of their own; they are no help to a Python from elsewhere.
find_missing_python_parts() {
  local package_prefix=""
  read_python # again: an installation in between changes the answer
  if [[ $python_real_executable == /usr/bin/* ]]; then package_prefix=python$python_version; fi
  if [[ $python_makes_environments == no ]]; then
    need "the module ensurepip of $python_executable" "${package_prefix:+$package_prefix-venv}"
  fi
  if [[ $python_has_headers == no ]]; then
    need "the header Python.h of $python_executable" "${package_prefix:+$package_prefix-dev}"
  fi
}

# pip of the virtual environment; settings that send packages elsewhere do not apply there.
pip() {
  env -u PIP_TARGET -u PIP_PREFIX -u PIP_ROOT PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 \
    "$environment/bin/python" -m pip "$@"
}

# True where an earlier run chose a torch for this Python and it is still there. Importing torch takes seconds; this does not.
torch_is_recorded() {
  local location="" recorded=""
  [[ -f $state/torch-location && -f $state/torch-choice ]] || return 1
  read -r location <"$state/torch-location" && read -r recorded <"$state/torch-choice" || return 1
  [[ -f $location/__init__.py ]] || return 1
  case $recorded in
    "taken $python_executable $python_version") torch_origin=taken ;;
    "installed $python_executable $python_version") torch_origin=installed ;;
    *) return 1 ;;
  esac
}

record_torch() {
  local location=$1
  mkdir -p "$state"
  rm -f "$state/torch-choice"
  echo "$location" >"$state/torch-location"
  echo "$torch_origin $python_executable $python_version" >"$state/torch-choice"
}

# Leaves the folder of a torch that is new enough in .muster/torch-location, and its origin in `torch_origin`.
set_up_torch() {
  local answer
  if torch_is_recorded; then return 0; fi
  if answer=$("$python" "$root/scripts/torch_choice.py" probe 2>/dev/null); then
    torch_origin=taken
    say "using torch ${answer%%$'\t'*} of $python_executable (${answer#*$'\t'})"
    record_torch "${answer#*$'\t'}"
    return 0
  fi
  say "${answer:-$python_executable cannot say which torch it has}"
  if ! may_install; then
    say "not installed: MUSTER_SETUP=never. To get it, run:"
    printf '  %s -m pip install %s\n' "$python" "$torch_to_install" >&2
    exit 2
  fi
  install_torch
}

install_torch() {
  local report=$state/torch-report.json answer
  torch_origin=installed
  begin_changes
  if torch_is_recorded; then return 0; fi
  make_environment
  say "asking which packages $torch_to_install brings"
  run_logged pip install --dry-run --quiet --report "$report" "$torch_to_install" ||
    fail "$torch_to_install is not available for Python $python_version" \
      "check the network, or install a torch 2.11 or newer for $python yourself, and run again"
  say "to be downloaded into $environment: $("$python" "$root/scripts/torch_choice.py" describe "$report")"
  say "to avoid this download, stop here, install a torch 2.11 or newer for $python yourself, and run again"
  say "installing $torch_to_install (this can take minutes; details: $log)"
  run_logged pip install "$torch_to_install" ||
    fail "installing $torch_to_install failed" \
      "check the network and the free disk space, or install a torch 2.11 or newer for $python yourself, and run again"
  answer=$("$environment/bin/python" "$root/scripts/torch_choice.py" probe 2>>"$log") ||
    fail "the torch just installed cannot be used: $answer" "delete $environment and run again"
  rm -f "$report"
  record_torch "${answer#*$'\t'}"
}

# Makes the virtual environment; makes it again where it was made for another Python or another origin of torch.
make_environment() {
  local wanted="$torch_origin $python_executable $python_version" made="" location
  if [[ -f $environment/.muster-made ]]; then read -r made <"$environment/.muster-made" || made=""; fi
  if [[ $made == "$wanted" && -x $environment/bin/python ]]; then return 0; fi
  begin_changes
  say "making the virtual environment $environment with Python $python_version"
  rm -rf "$environment"
  local -a options=()
  if [[ $torch_origin == taken ]]; then options=(--system-site-packages); fi
  run_logged "$python" -m venv "${options[@]}" "$environment" ||
    fail "$python could not make a virtual environment" \
      "install the venv module of $python (Debian: apt-get install python$python_version-venv), or set MUSTER_PYTHON"
  if [[ $torch_origin == taken ]]; then
    # The system's packages are those of the base installation: a torch in another environment needs its folder named.
    read -r location <"$state/torch-location"
    if ! "$environment/bin/python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'; then
      "$environment/bin/python" -c '
import os, sys, sysconfig
with open(os.path.join(sysconfig.get_paths()["purelib"], "muster_torch.pth"), "w") as file:
    file.write(os.path.dirname(sys.argv[1]) + "\n")
' "$location"
    fi
  fi
  echo "$wanted" >"$environment/.muster-made"
}

# The environment with the pinned packages; installed again only when their list changes.
set_up_test_environment() {
  local wanted installed=""
  wanted="$(cat "$requirements" "$requirements_alone" "$requirements_apart" 2>/dev/null | sha256sum) $torch_origin $python_executable $python_version"
  local stamp=$environment/.muster-requirements
  if [[ -f $stamp ]]; then read -r installed <"$stamp" || installed=""; fi
  if [[ $installed == "$wanted" && -x $environment/bin/python ]]; then return 0; fi
  if ! may_install; then
    say "missing: a virtual environment with the packages of $requirements"
    say "not installed: MUSTER_SETUP=never. To get it, run:"
    printf '  MUSTER_SETUP= %s/scripts/setup.sh tests\n' "$root" >&2
    exit 2
  fi
  begin_changes
  make_environment
  say "installing the packages of $requirements (some 160 MB)"
  run_logged pip install --requirement "$requirements" ||
    fail "the packages of $requirements could not be installed" "check the network, and run again"
  if [[ -f $requirements_alone ]]; then
    run_logged pip install --no-deps --requirement "$requirements_alone" ||
      fail "the packages of $requirements_alone could not be installed" "check the network, and run again"
  fi
  if [[ -f $requirements_apart ]]; then
    run_logged pip install --no-deps --upgrade --target "$environment/apart" --requirement "$requirements_apart" ||
      fail "the packages of $requirements_apart could not be installed" "check the network, and run again"
  fi
  echo "$wanted" >"$stamp"
}
