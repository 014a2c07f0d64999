#!/usr/bin/env bash
# Unpacks the arm64 packages that a build for 64-bit ARM links (cmake/aarch64-linux-gnu.cmake), and
# installs the cross compiler and the emulator where they are missing (that alone needs root, or sudo).
#
#   tools/aarch64_sysroot.sh [FOLDER]      default: build/aarch64-sysroot
#
# The packages of this machine stay as they are: apt resolves for a machine of its own with nothing
# installed, and the files are unpacked, not installed. Does nothing when the folder is complete.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
sysroot=$(realpath -m "${1:-build/aarch64-sysroot}")
tools=(g++-aarch64-linux-gnu qemu-user)
# The libraries of the build and the tests; the programs run here.
mapfile -t packages < <(echo libc6-dev && tools/install_dependencies.sh --list | grep -- '-dev$')

install_tools() {
  if command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64 >/dev/null; then
    return
  fi
  local as_root=()
  if ((EUID != 0)); then
    as_root=(sudo)
  fi
  echo "Packages: installing ${tools[*]}"
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get -qq update
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get -qq install -y --no-install-recommends "${tools[@]}" >/dev/null
}

# Prints apt's settings for an arm64 machine that keeps its state below the folder $1.
apt_settings() {
  cat <<END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "";
Debug::NoLocking "true";
Dir::State "$1/state";
Dir::State::status "$1/status";
Dir::Cache "$1/cache";
END
}

# What update-alternatives would link: the only libraries that packages leave to their scripts.
link_alternatives() {
  local libraries=$1/usr/lib/aarch64-linux-gnu
  ln -sf openblas-pthread/libopenblas.so "$libraries/libopenblas.so"
  ln -sf openblas-pthread/libopenblas.so.0 "$libraries/libopenblas.so.0"
  ln -sf ../openblas-pthread/pkgconfig/openblas.pc "$libraries/pkgconfig/openblas.pc"
}

# Links that begin at the root of the arm64 machine begin at the sysroot instead.
relocate_links() {
  local link target
  while IFS= read -r -d '' link; do
    target=$(readlink "$link")
    ln -sfr "$1$target" "$link"
  done < <(find "$1/lib" "$1/usr/lib" -type l -lname '/*' -print0)
}

install_tools
stamp=$sysroot/.packages
if [[ -f $stamp && $(<"$stamp") == "${packages[*]}" ]]; then
  echo "Sysroot: $sysroot is complete."
  exit 0
fi

echo "Sysroot: unpacking arm64 packages in $sysroot"
rm -rf "$sysroot"
apt=$sysroot/.apt
mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
: >"$apt/status"
apt_settings "$apt" >"$apt/settings"
export APT_CONFIG=$apt/settings
apt-get -qq update
apt-get -qq -y --no-install-recommends --download-only install "${packages[@]}"
for archive in "$apt"/cache/archives/*.deb; do
  dpkg-deb --extract "$archive" "$sysroot"
done
link_alternatives "$sysroot"
relocate_links "$sysroot"
rm -rf "$apt"
echo "${packages[*]}" >"$stamp"
