#!/usr/bin/env bash
# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Installs what KnapFormer needs to build and to test itself on Debian 12, Debian 13 or newer.
# Silent when nothing is missing. Otherwise lists what it will add and upgrade, asks on a terminal
# (not with YES=1, nor in a pipe), and then does it. Works as root or with sudo.
# With the argument `mpich` it adds MPICH beside Open MPI, which stays the MPI of the machine; with
# `slurm`, Slurm; with `iproute2`, the programs ip and tc.
#
# What comes from elsewhere (modules, Spack) is left alone: programs on the PATH, and a Kokkos named
# by Kokkos_ROOT or Kokkos_DIR, in the environment or in CMAKE_ARGS, or found below CMAKE_PREFIX_PATH
# or /usr/local.
#
# Debian 12 and 13 have no Kokkos. Its package is in the development distribution and needs a C
# and a C++ library as new as Debian 13's. Where apt cannot satisfy that, the development
# distribution and, on Debian 12, Debian 13 are added with priorities so low that nothing comes from
# them unasked, except Kokkos itself.
set -euo pipefail
export LC_ALL=C
with=${1:-}

say() { printf 'set-up: %s\n' "$*"; }
fail() { printf 'set-up: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

need_root() {
  [ "$(id -u)" = 0 ] || have sudo || fail "$1, and there is neither root nor sudo here:" \
    "run 'make setup' as root; or, where CMake finds everything anyway, give make SETUP=no"
}

# sudo clears the environment, so what keeps packages from asking questions is named behind it.
as_root() {
  local command=(env LC_ALL=C DEBIAN_FRONTEND=noninteractive APT_LISTCHANGES_FRONTEND=none "$@")
  if [ "$(id -u)" = 0 ]; then "${command[@]}"; else sudo "${command[@]}"; fi
}

# Packages of the configured distribution that are missing, one a line.
missing_packages() {
  local package
  have c++ || echo g++
  have cmake || echo cmake
  have ninja || echo ninja-build
  have pkg-config || echo pkg-config
  have gfortran || echo gfortran
  have doxygen || echo doxygen
  if ! have mpicxx || ! have mpirun; then printf '%s\n' libopenmpi-dev openmpi-bin; fi
  if [ "$with" = mpich ] && { ! have mpicxx.mpich || ! have mpiexec.mpich; }; then
    printf '%s\n' libmpich-dev mpich
  fi
  if [ "$with" = slurm ] && { ! have slurmctld || ! have slurmd || ! have munged; }; then
    printf '%s\n' slurm-wlm munge
  fi
  if [ "$with" = iproute2 ] && { ! have ip || ! have tc; }; then echo iproute2; fi
  have h5cc || have h5pcc || installed libhdf5-dev || echo libhdf5-dev
  for package in nlohmann-json3-dev libcli11-dev libfmt-dev libgtest-dev \
                 libbenchmark-dev libopenblas-openmp-dev libdnnl-dev python3-dev python3-h5py python3-venv; do
    installed "$package" || echo "$package"
  done
}

new_enough() { dpkg --compare-versions "$1" ge 4.5; }

have_kokkos() {
  local prefix IFS=':;'
  [ -z "${Kokkos_ROOT:-}${Kokkos_DIR:-}" ] || return 0
  [[ " ${CMAKE_ARGS:-}" != *\ -DKokkos_@(ROOT|DIR)[:=]* ]] || return 0
  for prefix in ${CMAKE_PREFIX_PATH:-} /usr/local; do
    compgen -G "$prefix/lib*/cmake/Kokkos/KokkosConfig.cmake" >/dev/null && return 0
    compgen -G "$prefix/lib/*/cmake/Kokkos/KokkosConfig.cmake" >/dev/null && return 0
  done
  installed libkokkos-dev && new_enough "$(dpkg-query -W -f='${Version}' libkokkos-dev)"
}

# Debian's Kokkos exports archives of its header-only libraries, which it does not ship.
missing_archives() {
  local files targets libdir archive
  installed libkokkos-dev || return 0
  files=$(dpkg-query -L libkokkos-dev)
  targets=$(grep 'KokkosTargets-[a-z]*\.cmake$' <<<"$files") || return 0
  libdir=$(grep -m1 '/KokkosConfig\.cmake$' <<<"$files")
  libdir=${libdir%/cmake/*}
  for archive in libkokkosalgorithms.a libkokkossimd.a; do
    # shellcheck disable=SC2086  # one word a file
    if grep -qs "/$archive" $targets && [ ! -e "$libdir/$archive" ]; then
      echo "$libdir/$archive"
    fi
  done
}

add_missing_archives() {
  local archive
  for archive in $(missing_archives); do
    need_root "$archive is missing"
    say "creating the empty archive $archive, which libkokkos-dev names but does not ship"
    as_root ar rc "$archive"
  done
}

# What apt knows of its Debian sources, e.g. index_targets SITE.
index_targets() {
  apt-get indextargets --format "\$(ORIGIN)|\$(LABEL)|\$(COMPONENT)|\$($1)" \
    'Created-By: Packages' | sed -n 's/^Debian|Debian|main|//p'
}

# Source and priorities for Kokkos, in folders below $1. The mirror is the one that apt uses.
# $2: suites to add.
write_kokkos_sources() {
  local mirror keyring
  mirror=$(index_targets SITE | grep -v '^cdrom:' | head -n 1) || true
  [ -n "$mirror" ] ||
    fail "apt is configured with no Debian mirror: install Kokkos 4.5 or newer and set Kokkos_ROOT"
  for keyring in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
    [ ! -e "$keyring" ] || break
  done
  cat >"$1/sources.list.d/knapformer.sources" <<SOURCES
# For libkokkos-dev; the priorities are in preferences.d/knapformer.
Types: deb
URIs: $mirror
Suites: $2
Components: main
Signed-By: $keyring
SOURCES
  cat >"$1/preferences.d/knapformer" <<PREFERENCES
Package: *
Pin: release n=sid
Pin-Priority: 50

Package: libkokkos*
Pin: release n=sid
Pin-Priority: 500
PREFERENCES
  [[ "$2" != *trixie* ]] || cat >>"$1/preferences.d/knapformer" <<PREFERENCES

Package: *
Pin: release n=trixie
Pin-Priority: 100
PREFERENCES
}

# apt-get with its package lists below $scratch, and the sources and priorities there once written.
scratch_apt() {
  apt-get -o Dir::State::Lists="$scratch/lists" -o Dir::Cache="$scratch/cache" \
    -o Dir::Etc::SourceParts="$scratch/sources.list.d" \
    -o Dir::Etc::PreferencesParts="$scratch/preferences.d" "$@"
}

# Options of apt-get update that read the sources in $1 alone: what else is configured may be broken.
only_kokkos_sources() {
  printf '%s\n' -o "Dir::Etc::SourceList=$1/knapformer.sources" -o Dir::Etc::SourceParts=- \
    -o APT::Get::List-Cleanup=0 -o APT::Update::Error-Mode=any
}

update_scratch() {
  local only
  write_kokkos_sources "$scratch" "$1"
  mapfile -t only < <(only_kokkos_sources "$scratch/sources.list.d")
  scratch_apt -qq "${only[@]}" update
}

# True when "$1" (apt-get or scratch_apt) can install Kokkos with the arguments behind it. Leaves
# what that would do in $scratch/kokkos.
plan_is_good() {
  "$1" -s install --no-install-recommends "${@:2}" >"$scratch/kokkos" 2>&1 &&
    new_enough "$(sed -n 's/^Inst libkokkos-dev .*(\([^ ]*\) .*/\1/p' "$scratch/kokkos")"
}

# Plans the installation of Kokkos: sets `kokkos_install`, what to install, and `suites`, what to add
# to the package sources. Those are tried in $scratch, so that nothing changes before the user agrees.
plan_kokkos() {
  kokkos_install=(libkokkos-dev)
  suites=
  ! plan_is_good apt-get "${kokkos_install[@]}" || return 0

  say "reading the package lists of Debian's development distribution, which has Kokkos"
  mkdir -p "$scratch"/{lists,cache/archives}/partial
  cp /var/lib/apt/lists/*_* "$scratch/lists/"
  cp -r /etc/apt/{sources.list.d,preferences.d} "$scratch/"
  suites=sid
  update_scratch "$suites" || fail "Debian's development distribution cannot be read; see above"
  ! plan_is_good scratch_apt "${kokkos_install[@]}" || return 0

  if dpkg --compare-versions "$(dpkg-query -W -f='${Version}' libc6)" lt 2.41; then
    suites="trixie sid"
    kokkos_install=(-t trixie libc6-dev libstdc++6 libkokkos-dev)
    update_scratch "$suites" || fail "Debian 13's package lists cannot be read; see above"
    ! plan_is_good scratch_apt "${kokkos_install[@]}" || return 0
  fi
  sed 's/^/  /' "$scratch/kokkos" >&2
  fail "Debian's development distribution has no libkokkos-dev of version 4.5 or newer that fits" \
    "this system; see above. Install Kokkos and set Kokkos_ROOT"
}

# Lists what the simulated installation in $1 would do. Nothing may be removed.
print_transaction() {
  awk '/^Inst/ { if ($3 ~ /^\[/) up = up " " $2; else add = add " " $2 }
       END { if (add) print "adds:" add; if (up) print "upgrades:" up }' "$1" |
    fold -s -w 92 | sed 's/^/set-up:     /'
  ! grep -q '^Remv' "$1" || fail "would have to remove$(awk '/^Remv/ { printf " %s", $2 }' "$1")." \
    "Nothing was changed; remove them yourself, or install what is missing by other means"
}

install_packages() {
  as_root apt-get -q -y --no-remove --no-install-recommends -o Dpkg::Options::=--force-confdef \
    -o Dpkg::Options::=--force-confold -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 \
    install "$@" >"$scratch/log" 2>&1 </dev/null ||
    { tail -n 20 "$scratch/log" >&2; fail "the installation failed; see above"; }
}

mapfile -t packages < <(missing_packages)
kokkos=
have_kokkos || kokkos=libkokkos-dev
if [ ${#packages[@]} = 0 ] && [ -z "$kokkos" ]; then
  add_missing_archives
  exit 0
fi

missing="missing, in Debian's words: ${packages[*]} $kokkos"
if ! have apt-get; then
  say "$missing"
  say "there is no apt here, so nothing is installed; CMake takes what it finds"
  exit 0
fi
need_root "$missing"
say "$missing"
say "reading package lists"
as_root apt-get -qq update || fail "apt-get update failed; see above"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
if [ ${#packages[@]} -gt 0 ]; then
  apt-get -s install --no-install-recommends "${packages[@]}" >"$scratch/ordinary" 2>&1 ||
    { sed 's/^/  /' "$scratch/ordinary" >&2; fail "apt cannot install ${packages[*]}; see above"; }
fi
[ -z "$kokkos" ] || plan_kokkos

if [ ${#packages[@]} -gt 0 ]; then
  say "from the configured distribution"
  print_transaction "$scratch/ordinary"
fi
if [ -n "$kokkos" ]; then
  [ -z "$suites" ] || say "adds the package sources ${suites// / and }," \
    "so low in priority that only Kokkos and what it needs come from them"
  say "for Kokkos"
  print_transaction "$scratch/kokkos"
fi
if [ -t 0 ] && [ -t 1 ] && [ "${YES:-}" != 1 ]; then
  read -r -p "set-up: go on? [Y/n] " answer || fail "stopped; nothing was changed"
  [[ "$answer" =~ ^([Yy].*)?$ ]] || fail "stopped; nothing was changed"
fi

if [ ${#packages[@]} -gt 0 ]; then
  say "installing ${packages[*]}"
  install_packages "${packages[@]}"
fi
if [ -n "$kokkos" ]; then
  say "installing Kokkos"
  if [ -n "$suites" ]; then
    as_root cp "$scratch/sources.list.d/knapformer.sources" /etc/apt/sources.list.d/
    as_root cp "$scratch/preferences.d/knapformer" /etc/apt/preferences.d/
    mapfile -t only < <(only_kokkos_sources /etc/apt/sources.list.d)
    as_root apt-get -qq "${only[@]}" update
  fi
  install_packages "${kokkos_install[@]}"
  add_missing_archives
fi
say "done"
