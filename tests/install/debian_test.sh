#!/usr/bin/env bash
# Installs the Debian package of a build into a fresh Debian 12 and uses it there: `apt install`, `man nibble`, `nibble run`,
# the completion, and removal. Needs root, mmdebstrap and a mirror; it takes a minute and is no part of `.ci/run`.
#
#   tests/install/debian_test.sh BUILD/packages/nibble_VERSION_ARCHITECTURE.deb MODEL
set -euo pipefail

package=$(realpath "$1")
model=$(realpath "$2")
root=$(mktemp -d)
trap 'umount "$root/proc" 2>/dev/null || true; rm -rf --one-file-system "$root"' EXIT

die() {
  echo "debian_test.sh: $*" >&2
  exit 1
}

inside() {
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/srv LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

mmdebstrap --quiet --variant=minbase --include=man-db,ca-certificates bookworm "$root" http://deb.debian.org/debian
mount -t proc proc "$root/proc"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp "$package" "$root/srv/nibble.deb"
cp -r "$model" "$root/srv/model"

inside apt-get update -qq
inside sh -c 'cd /srv && apt-get install -qq -y --no-install-recommends ./nibble.deb' >"$root/log" 2>&1 || die "$(tail -5 "$root/log")"
version=$(inside nibble --version)
[[ $version == nibble\ [0-9]* ]] || die "--version says '$version'"
page=$(inside man -P cat nibble) || die "man nibble fails"
[[ $page == *NIBBLE\(1\)* && $page == *quantize* ]] || die "man nibble shows another page"
inside man -P cat nibble-serve | grep -q -- '--port' || die "man nibble-serve lacks --port"
text=$(inside nibble run /srv/model -p "A library is" -n 8 --temp 0 -q) || die "nibble run fails"
[[ -n $text ]] || die "nibble run writes nothing"
inside bash -n /usr/share/bash-completion/completions/nibble || die "the completion of bash does not parse"
inside apt-get remove -qq -y nibble >"$root/log" 2>&1 || die "$(tail -5 "$root/log")"
[[ ! -e $root/usr/bin/nibble ]] || die "removing it leaves the program"
echo "installed $version in Debian $(cat "$root/etc/debian_version"), wrote '$text', and removed it"
