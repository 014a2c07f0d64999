#!/usr/bin/env bash
# Installs the Debian packages that Nibble is built from (docs/dependencies.md says what each is for).
#
#   tools/install_dependencies.sh              what the build and the tests need
#   tools/install_dependencies.sh --no-tests   only what the build needs (-DNIBBLE_BUILD_TESTS=OFF)
#   tools/install_dependencies.sh --checks     also what the checks of .ci/run need; the Python packages of
#                                              tests/requirements.txt come from PyPI into build/python
#   tools/install_dependencies.sh --list       prints the names of the packages instead
#
# Does nothing when everything is there. Debian's packages need root, or sudo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build_packages=(
  g++ cmake ninja-build pkg-config
  libopenblas-dev libsimdjson-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libcurl4-openssl-dev libssl-dev libfmt-dev
  libboost-dev libicu-dev libpcre2-dev
)
test_packages=(libgtest-dev libsentencepiece-dev openmpi-bin)
check_packages=(python3 python3-venv python3-numpy clang-format clang-tidy shellcheck chromium libfaketime lintian mandoc zsh fish)
python=build/python
requirements=tests/requirements.txt

usage() {
  sed -n '2,10s/^# \{0,1\}//p' tools/install_dependencies.sh
}

die() {
  echo "install_dependencies.sh: $*" >&2
  exit 1
}

is_installed() {
  dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null | grep -q '^ii'
}

# Runs apt-get and shows one short line of progress; the whole output only when it fails.
apt_get() {
  local log status=0
  log=$(mktemp)
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get -q -o Dpkg::Use-Pty=0 "$@" </dev/null 2>&1 |
    tee "$log" | show_progress || status=$?
  if ((status != 0)); then
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "apt-get $1 failed; its last lines stand above"
  fi
  rm -f "$log"
}

show_progress() {
  local line fetched=0 unpacked=0 ready=0 shown=0
  while IFS= read -r line; do
    case $line in
      Get:*) fetched=$((fetched + 1)) ;;
      Unpacking*) unpacked=$((unpacked + 1)) ;;
      "Setting up"*) ready=$((ready + 1)) ;;
      *) continue ;;
    esac
    if [[ -t 1 ]]; then
      printf '\r  fetched %d, unpacked %d, set up %d ' "$fetched" "$unpacked" "$ready"
      shown=1
    elif (((fetched + unpacked + ready) % 50 == 0)); then
      echo "  fetched $fetched, unpacked $unpacked, set up $ready"
    fi
  done
  if ((shown)); then
    echo
  fi
}

install_packages() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    die "this system has no apt-get; install by hand the libraries that docs/dependencies.md lists," \
      "then use cmake --preset release"
  fi

  local package missing=()
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    echo "Packages: all $# are installed."
    return
  fi

  as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "packages are missing (${missing[*]}) and there is neither root nor sudo to install them"
    as_root=(sudo)
  fi

  echo "Packages: installing ${#missing[@]} of $# and what they need (${missing[*]})"
  apt_get update
  apt_get install -y --no-install-recommends "${missing[@]}"
  echo "Packages: done."
}

# The clients that tests drive the server with, in a virtual environment: its copy of the list says that
# it is complete.
install_python_packages() {
  if cmp -s "$requirements" "$python/requirements.txt"; then
    echo "Python packages: all are installed in $python."
    return
  fi
  echo "Python packages: installing $requirements in $python"
  rm -rf "$python"
  python3 -m venv "$python"
  "$python/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements" ||
    die "pip failed; its last lines stand above"
  cp "$requirements" "$python/requirements.txt"
}

tests=1
checks=0
list=0
for argument in "$@"; do
  case $argument in
    --no-tests) tests=0 ;;
    --checks) checks=1 ;;
    --list) list=1 ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) die "unknown argument '$argument' (--no-tests, --checks and --list are known)" ;;
  esac
done

packages=("${build_packages[@]}")
if ((tests)); then
  packages+=("${test_packages[@]}")
fi
if ((checks)); then
  packages+=("${check_packages[@]}")
fi
if ((list)); then
  printf '%s\n' "${packages[@]}"
  exit 0
fi
install_packages "${packages[@]}"
if ((checks)); then
  install_python_packages
fi
