#!/usr/bin/env bash
# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Unpacks a Kokkos whose only backend is Serial into the folder $1, and installs nothing. `make tsan`
# needs one: ThreadSanitizer takes what OpenMP's threads do for races, since it cannot see libgomp.
# Debian's Kokkos has OpenMP alone; the one that Debian builds for Trilinos, in its development
# distribution, has Serial alone.
set -euo pipefail
export LC_ALL=C

folder=$(realpath -m "$1")
fail() { printf 'set-up: %s; name a Kokkos with Serial: CMAKE_ARGS=-DKokkos_ROOT=...\n' "$*" >&2; exit 1; }

[[ " ${CMAKE_ARGS:-}" != *\ -DKokkos_@(ROOT|DIR)[:=]* ]] || exit 0
[ ! -e "$folder/usr" ] || exit 0
command -v apt-get >/dev/null || fail 'there is no apt here to get Kokkos with Serial from'

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch"/{lists,cache/archives}/partial "$scratch/unpacked"
mirror=$(apt-get indextargets --format '$(ORIGIN)|$(COMPONENT)|$(SITE)' 'Created-By: Packages' |
  sed -n 's/^Debian|main|//p' | grep -v '^cdrom:' | head -n 1) || true
[ -n "$mirror" ] || fail 'apt is configured with no Debian mirror'
for keyring in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
  [ ! -e "$keyring" ] || break
done
echo "deb [signed-by=$keyring] $mirror sid main" >"$scratch/sources.list"

# apt-get with the development distribution alone, and its lists in $scratch.
sid() {
  apt-get -qq -o Dir::State::Lists="$scratch/lists" -o Dir::Cache="$scratch/cache" \
    -o Dir::Etc::SourceList="$scratch/sources.list" -o Dir::Etc::SourceParts=- \
    -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any "$@"
}

echo "set-up: unpacking a Kokkos with the Serial backend alone, from Debian's libtrilinos-kokkos-dev, into $folder"
cd "$scratch"
sid update && sid download libtrilinos-kokkos-dev || fail 'libtrilinos-kokkos-dev cannot be had'
# The headers, and the library that goes with them.
library=$(dpkg-deb -f libtrilinos-kokkos-dev_*.deb Depends | grep -o 'libtrilinos-kokkos-[0-9.]*' | head -n 1) || true
[ -n "$library" ] || fail 'libtrilinos-kokkos-dev names no library'
sid download "$library" || fail "$library cannot be had"
for package in ./*.deb; do dpkg-deb -x "$package" unpacked; done
config=$(find unpacked -name KokkosCore_config.h)
grep -qs '^#define KOKKOS_ENABLE_SERIAL$' "$config" && ! grep -q '^#define KOKKOS_ENABLE_OPENMP$' "$config" ||
  fail "libtrilinos-kokkos-dev is no longer a Kokkos with Serial alone"
mkdir -p "$folder"
mv unpacked/usr "$folder/usr"
