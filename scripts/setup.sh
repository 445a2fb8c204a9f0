#!/usr/bin/env bash
# usage: setup.sh demo|test
# Makes ./.venv with everything that `make demo` or `make test` needs, and the system packages where apt and root are
# at hand; else says in one line what is missing and what that costs. A second run does nothing that is done already.
# Environment: PYTHON (interpreter to build the venv with), QL_NO_APT=1 (leave system packages alone).
set -eu
cd "$(dirname "$0")/.."
profile=${1:-test}
venv=.venv

say() { printf '%s\n' "setup: $*"; }

# --- system packages: name | needed by | apt packages | brew packages | what its absence costs -----------------------
have() { command -v "$1" >/dev/null 2>&1; }
probe_spirv() { have spirv-val; }
probe_cc() { have cc || have gcc || have clang; }
probe_cxx() { have g++ || have clang++ || have c++; }
probe_clang() { have clang-19; }
probe_node() { have node; }
probe_layers() {
    ls /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json \
        /opt/homebrew/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json 2>/dev/null | grep -q .
}
probe_lld() { # version 15 or newer, as backends/amdgpu/toolkit.py looks for it
    ls /opt/rocm*/llvm/bin/ld.lld >/dev/null 2>&1 && return
    for lld in $(printf '%s\n' "$PATH" | tr ':' '\n' | while read -r d; do ls "$d"/ld.lld "$d"/ld.lld-* 2>/dev/null; done); do
        version=$("$lld" --version 2>/dev/null | sed -n 's/.*LLD \([0-9]*\).*/\1/p')
        if [ "${version:-0}" -ge 15 ]; then return; fi
    done
    return 1
}
probe_chromium() {
    have chromium || have chromium-browser || have google-chrome ||
        [ -x "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" ] ||
        [ -x /Applications/Chromium.app/Contents/MacOS/Chromium ]
}
probe_vulkan() {
    if [ "$(uname)" = Darwin ]; then
        [ -e /opt/homebrew/lib/libvulkan.dylib ] || [ -e /usr/local/lib/libvulkan.dylib ]
    else
        (PATH=$PATH:/sbin:/usr/sbin; ldconfig -p 2>/dev/null | grep -q libvulkan.so.1) &&
            ls /usr/share/vulkan/icd.d/*.json /etc/vulkan/icd.d/*.json 2>/dev/null | grep -q .
    fi
}
packages='spirv|test|spirv-tools|spirv-tools|SPIR-V is made but not validated
vulkan|test|mesa-vulkan-drivers libvulkan1|molten-vk vulkan-loader|kernels do not run on Vulkan, its code is still shown
lld|test|lld-19|lld|code objects for AMD GPUs are made but not linked
cc|test|gcc libc6-dev|gcc|kernels do not run in C, their source is still shown
cxx|test|g++|gcc|Metal is not simulated
clang|test|clang-19|llvm@19|the LLVM text of the CPU runtime is not compared with its C
layers|test|vulkan-validationlayers|vulkan-validationlayers|what is asked of Vulkan is not checked by its validation layers
node|test|nodejs|node|what Node makes of WebAssembly is not compared
chromium|test|chromium fonts-dejavu-core|--cask chromium|the notebook is not driven in a real browser'

apt_usable() { have apt-get && [ "$(id -u)" = 0 ] && [ -z "${QL_NO_APT:-}" ]; }
known_to_apt() { # what a distribution does not have must not keep it from the rest
    for package in "$@"; do if apt-cache show "$package" >/dev/null 2>&1; then echo "$package"; fi; done
}
apt_install() {
    # One failed attempt is remembered until `make setup` asks again: an offline machine must not wait each time. The
    # mark lies in this project: in a folder that users share, somebody else could have put a link in its place.
    mark=out/.apt-failed
    if [ -e "$mark" ] && [ -z "$(find "$mark" -mmin +60)" ]; then return 1; fi
    say "apt-get install $*"
    # shellcheck disable=SC2046,SC2068
    if apt-get update -qq </dev/null >/dev/null 2>&1 &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(known_to_apt $@) \
            </dev/null >/dev/null 2>&1
    then rm -f "$mark"; else mkdir -p out && : >"$mark"; return 1; fi
}

missing() { # prints the rows of `packages` that this profile needs and this machine lacks
    printf '%s\n' "$packages" | while IFS='|' read -r name by apt brew cost; do
        case " $by " in *" $profile "*) ;; *) continue ;; esac
        "probe_$name" || printf '%s\n' "$name|$apt|$brew|$cost"
    done
}

rows=$(missing)
if [ -n "$rows" ] && apt_usable; then
    apt_install $(printf '%s\n' "$rows" | cut -d'|' -f2) || true
    rows=$(missing)
fi
if [ -n "$rows" ]; then
    printf '%s\n' "$rows" | while IFS='|' read -r name apt brew cost; do
        if [ "$(uname)" = Darwin ]; then how="brew install $brew"; else how="apt install $apt"; fi
        say "missing: $name ($how); without it $cost"
    done
fi

# --- Python and its packages ----------------------------------------------------------------------------------------
case $profile in demo) extras=notebook,wasm ;; *) extras=dev,vulkan ;; esac
if [ "$(uname)" = Darwin ]; then extras=$extras,metal; fi
stamp=$venv/.stamp-$profile
key=$(cat pyproject.toml scripts/setup.sh | cksum)@$PWD
if [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$key" ] && [ -x $venv/bin/python ]; then exit 0; fi

fits() { "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1; }
if ! fits $venv/bin/python; then
    python=
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
        if fits "$candidate"; then python=$candidate; break; fi
    done
    if [ -z "$python" ] && apt_usable && apt_install python3 python3-venv && fits python3; then python=python3; fi
    if [ -z "$python" ]; then
        say "missing: Python 3.10 to 3.14; set PYTHON=/path/to/python3. Nothing runs without it"
        exit 1
    fi
    if ! "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then
        minor=$("$python" -c 'import sys; print("3.%d" % sys.version_info[1])')
        if ! { apt_usable && apt_install "python$minor-venv"; }; then
            say "missing: Python's venv module (apt install python$minor-venv). Nothing runs without it"
            exit 1
        fi
    fi
    say "virtual environment in $venv with $("$python" --version)"
    rm -rf $venv
    "$python" -m venv $venv
fi
say "pip install .[$extras] into $venv (the first time takes a minute or two)"
log=$venv/setup.log
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_RETRIES="${PIP_RETRIES:-1}"
stop_without_index() { # every index has setuptools: where pip finds no version of it, there is no index
    if grep -Eq "setuptools.*from versions: none|connection broken by" "$log"; then
        say "the package index cannot be reached, and nothing is installed; what pip said is in $log"
        exit 1
    fi
}
if ! $venv/bin/python -m pip install --upgrade 'setuptools>=77' 'pip>=23.2' </dev/null >"$log" 2>&1; then
    stop_without_index
    say "pip could not be upgraded; going on with $($venv/bin/python -m pip --version | cut -d' ' -f1,2)"
fi
if ! $venv/bin/python -m pip install -e ".[$extras]" </dev/null >>"$log" 2>&1; then
    stop_without_index
    tail -n 20 "$log"
    say "pip install failed; the whole output is in $log"
    exit 1
fi
mkdir -p $venv/etc/jupyter && cp notebooks/jupyter_nbconvert_config.json $venv/etc/jupyter/
printf '%s' "$key" >"$stamp"
