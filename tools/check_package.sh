#!/usr/bin/env bash
# Makes the Debian packages of a build and checks them: their files, what they depend on, lintian, and the program as it
# comes out of its package.
#
#   tools/check_package.sh [BUILD]      default: build/release, whose program is built
#
# The packages are left in BUILD/packages. Without lintian its part is left out; with CI=true that fails.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(realpath "${1:-build/release}")
out=$build/packages
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

die() {
  echo "check_package.sh: $*" >&2
  exit 1
}

rm -rf "$out"
mkdir -p "$out"
umask 022
(cd "$build" && cpack -G DEB -B "$out") >"$scratch/log" 2>&1 || die "$(cat "$scratch/log")"
rm -rf "$out/_CPack_Packages"
package=$(find "$out" -name "nibble_*_$(dpkg --print-architecture).deb")
[[ -n $package ]] || die "there is no package nibble_VERSION_$(dpkg --print-architecture).deb"

# What it holds.
root=$scratch/root
dpkg -x "$package" "$root"
for file in bin/nibble lib/systemd/system/nibble@.service share/doc/nibble/copyright share/doc/nibble/changelog.gz \
  share/doc/nibble/changelog.Debian.gz share/doc/nibble/examples/serve.toml share/man/man1/nibble.1.gz \
  share/man/man1/nibble-serve.1.gz share/bash-completion/completions/nibble share/zsh/vendor-completions/_nibble \
  share/fish/vendor_completions.d/nibble.fish; do
  [[ -s $root/usr/$file ]] || die "$file is not in the package"
done
grep -q '^ExecStart=/usr/bin/nibble ' "$root/usr/lib/systemd/system/nibble@.service" || die "the unit starts another program"
zgrep -q "^nibble ($(dpkg-deb -f "$package" Version)) " "$root/usr/share/doc/nibble/changelog.Debian.gz" ||
  die "changelog.Debian.gz is of another version"
if command -v systemd-analyze >/dev/null; then
  sed "s#/usr/bin/nibble#$root/usr/bin/nibble#" "$root/usr/lib/systemd/system/nibble@.service" >"$scratch/nibble@check.service"
  systemd-analyze verify --man=no "$scratch/nibble@check.service"
fi

# What it needs: a package for each library that is linked, and OpenBLAS, which is opened.
depends=$(dpkg-deb -f "$package" Depends)
for name in libc6 libstdc++6 libcurl4 libicu libpcre2-8-0 libsimdjson libfmt libssl3 libopenblas0; do
  [[ $depends == *$name* ]] || die "the package does not depend on $name: $depends"
done
[[ $depends != *-dev* ]] || die "the package depends on development files: $depends"

# The program as it comes out of the package.
cd "$scratch"
version=$("$root/usr/bin/nibble" --version)
[[ $(dpkg-deb -f "$package" Version) == "${version#nibble }"-* ]] || die "the program in the package is $version"
model=$OLDPWD/models/demo
[[ -n $("$root/usr/bin/nibble" run "$model" -p "A library is" -n 4 -q) ]] || die "the program in the package does not write"

if command -v lintian >/dev/null; then
  # Not our fault: addresses of developers, which the packager sets (NIBBLE_PACKAGE_CONTACT), and /usr/lib/pkgconfig of a
  # build that was not configured for /usr.
  lintian --fail-on error,warning --suppress-tags \
    bogus-mail-host,initial-upload-closes-no-bugs,pkg-config-unavailable-for-cross-compilation "$out"/*.deb
elif [[ ${CI:-} == true ]]; then
  die "lintian is not installed"
fi
echo "package: $(basename "$package"), $(du -h "$package" | cut -f1); depends on $depends"
