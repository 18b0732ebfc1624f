# shellcheck shell=bash
# The set-up that ci/test, ci/demo and ci/matrix share. Sourced, not run: it moves to the root of the
# repository and defines `prepare VENV EXTRAS`, which leaves the virtual environment VENV with an editable,
# compiled install of pysched and its EXTRAS. Only what changed since the last time is installed or built. IN_PARALLEL
# is how pytest uses both cores: a file's tests share what it builds; one that kills its process ends the run.
#
# PYTHON names the interpreter (default: python3). Nothing outside of the repository is installed or changed.

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." || exit

# shellcheck disable=SC2034
IN_PARALLEL=(-n 2 --dist loadfile --max-worker-restart 0)

say() { printf '\n== %s\n' "$*"; }
die() { printf '%s: %s\n' "$0" "$*" >&2; exit 1; }

# check_python PYTHON: the interpreter is one that we support, and extensions can be built for it.
check_python() {
    command -v -- "$1" >/dev/null || die "no '$1' found; set PYTHON to a CPython 3.10 or later"
    "$1" - <<'PY' || die "cannot build with '$1' (see above)"
import os, shlex, shutil, sys, sysconfig

if sys.implementation.name != "cpython" or sys.version_info < (3, 10):
    sys.exit(f"needs CPython 3.10 or later, this is {sys.implementation.name} {sys.version.split()[0]}")
try:
    import ensurepip, venv
except ImportError as error:
    sys.exit(f"this Python cannot make virtual environments ({error}); the package is often called python3-venv")
if os.name == "posix":
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        sys.exit(f"no C compiler: '{compiler}' is not on PATH; install one, or set CC")
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    if not os.path.exists(header):
        sys.exit(f"no Python headers: {header} is missing; the package is often called python3-dev")
PY
}

# requirements PYTHON EXTRAS: what the [build-system] of pyproject.toml and these extras ask for, one a line.
requirements() {
    "$1" - "$2" <<'PY'
import sys
try:
    import tomllib
except ImportError:  # before 3.11
    from pip._vendor import tomli as tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)
print(*project["build-system"]["requires"], sep="\n")
for extra in filter(None, sys.argv[1].split(",")):
    print(*project["project"]["optional-dependencies"][extra], sep="\n")
PY
}

# all_extras OLD NEW: both, each once.
all_extras() { printf '%s\n' "$1" "$2" | tr ',' '\n' | sed '/^$/d' | sort -u | paste -sd, -; }

# make_venv VENV: make it with the chosen Python, unless it exists, works, and is of that Python.
make_venv() {
    local venv=$1 python=${PYTHON:-python3} wanted
    local show='import sys; print(sys.version)'
    if [[ -z ${PYTHON:-} ]] && "$venv/bin/python" -c '' 2>/dev/null; then
        return  # no Python was asked for: the one it was made with will do
    fi
    check_python "$python"
    wanted=$("$python" -c "$show")
    if [[ $("$venv/bin/python" -c "$show" 2>/dev/null) != "$wanted" ]]; then
        say "making $venv with Python ${wanted%% *}"
        "$python" -m venv --clear "$venv"
    fi
}

prepare() {
    local venv=$1 extras=$2 recipe switches
    make_venv "$venv"
    local python=$venv/bin/python stamp=$venv/pysched-built pip=(-m pip --quiet --disable-pip-version-check)
    local old_recipe='' old_extras='' old_switches=''
    if [[ -f $stamp ]]; then
        { read -r old_recipe; read -r old_extras; read -r old_switches; } <"$stamp"
    fi
    recipe=$(cat pyproject.toml setup.py | cksum)
    switches="debug=${PYSCHED_DEBUG:-0} portable=${PYSCHED_PORTABLE:-0} sanitize=${PYSCHED_SANITIZE:-0} coverage=${PYSCHED_COVERAGE:-0}"
    extras=$(all_extras "$old_extras" "$extras")  # what another command needs stays installed

    # The stamp's time is that of the start: what is edited during a build is built the next time.
    printf '%s\n' "$recipe" "$extras" "$switches" >"$stamp.new"
    if [[ $recipe != "$old_recipe" || $extras != "$old_extras" ]]; then
        requirements "$python" "$extras" >"$venv/requirements.txt"
        say "installing into $venv what the build needs${extras:+, and [$extras]}"
        "$python" "${pip[@]}" install --upgrade pip -r "$venv/requirements.txt"
    fi
    if [[ $recipe != "$old_recipe" ]]; then
        say "building pysched and installing it: a minute or two"
        # setuptools warns of every editable install that its folder comes first on sys.path: here it should.
        PYTHONWARNINGS=ignore "$python" "${pip[@]}" install --no-build-isolation --editable .
    elif [[ $switches != "$old_switches" || -n $(find engine -newer "$stamp" -print -quit) ]]; then
        say "building what changed in engine/"
        "$python" setup.py --quiet build_ext --inplace
    fi
    mv -- "$stamp.new" "$stamp"
}
