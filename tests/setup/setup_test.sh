#!/usr/bin/env bash
# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs the set-up script $1 on make-believe machines: its PATH has nothing but the programs below, and
# package tools that write down how they are called and answer what each case says.
set -euo pipefail

setup=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

stub() { printf '#!/bin/bash\n%s\n' "$2" >"$bin/$1"; chmod +x "$bin/$1"; }

# A fresh machine: root, apt-get that installs everything, and no package installed.
machine() {
  bin=$(mktemp -d -p "$scratch")
  calls=$bin/calls
  local program
  for program in awk bash cat chmod cp env fold grep head mkdir mktemp rm sed tail; do
    ln -s "$(command -v "$program")" "$bin/$program"
  done
  stub id 'echo 0'
  stub dpkg 'exit 0'  # every version is new enough
  stub dpkg-query 'exit 1'
  stub apt-get "echo \"\$*\" >>$calls
case \"\$*\" in
-s*libkokkos-dev*) echo 'Inst libkokkos-dev (5.2.2-2 Debian:unstable [amd64])' ;;
-s*) echo 'Inst cmake (3.25 Debian:12 [amd64])'; echo 'Inst libc6 [2.36] (2.41 Debian:13 [amd64])' ;;
esac"
  : >"$calls"
}

# Every package that the script asks for is there, and every program.
everything_installed() {
  stub dpkg-query 'case "$*" in *Version*) echo 5.2.2-2 ;; *Status*) echo installed ;; esac'
  local program
  for program in c++ gfortran doxygen cmake ninja pkg-config mpicxx mpirun h5cc; do stub "$program" 'exit 0'; done
}

# Runs the script with the variables given; sets output and status.
run_setup() {
  status=0
  output=$(env -i PATH="$bin" TMPDIR="$scratch" "$@" "$bin/bash" "$setup" 2>&1 </dev/null) || status=$?
}

expect() {
  "${@:2}" && return 0
  printf 'FAILED: %s: %s\n  exit status %s, output:\n%s\n  calls of apt-get:\n%s\n' \
    "$what" "$1" "$status" "$output" "$(cat "$calls")"
  failures=$((failures + 1))
}
said() { grep -q -- "$1" <<<"$output"; }
called() { grep -q -- "$1" "$calls"; }
never_called() { ! grep -q -- "$1" "$calls"; }

what='nothing is missing'
machine
everything_installed
run_setup
expect 'succeeds' [ "$status" = 0 ]
expect 'is silent' [ -z "$output" ]
expect 'leaves apt alone' never_called .

what='a fresh machine'
machine
run_setup
expect 'succeeds' [ "$status" = 0 ]
expect 'lists what it adds' said 'adds: cmake'
expect 'lists what it upgrades' said 'upgrades: libc6'
expect 'installs the packages' called '^-q -y.* install .*g++ cmake'
compgen -G '/usr/local/lib*/cmake/Kokkos' >/dev/null ||  # the one folder that is not make-believe
  expect 'installs Kokkos' called '^-q -y.* install .*libkokkos-dev'

for kokkos in Kokkos_ROOT=/opt/kokkos 'CMAKE_ARGS=-G Ninja -DKokkos_ROOT=/opt/kokkos'; do
  what="$kokkos"
  machine
  run_setup "$kokkos"
  expect 'succeeds' [ "$status" = 0 ]
  expect 'installs the rest' called 'install .*g++ cmake'
  expect 'leaves Kokkos alone' never_called libkokkos
done

what='Kokkos below CMAKE_PREFIX_PATH'
machine
mkdir -p "$bin/opt/lib64/cmake/Kokkos"
touch "$bin/opt/lib64/cmake/Kokkos/KokkosConfig.cmake"
run_setup CMAKE_PREFIX_PATH="/nowhere:$bin/opt"
expect 'succeeds' [ "$status" = 0 ]
expect 'leaves Kokkos alone' never_called libkokkos

what='neither root nor sudo'
machine
stub id 'echo 1000'
run_setup
expect 'fails' [ "$status" != 0 ]
expect 'says so' said 'neither root nor sudo'
expect 'leaves apt alone' never_called .

what='a user with sudo'
machine
stub id 'echo 1000'
stub sudo "echo \"sudo \$*\" >>$calls; exec \"\$@\""
run_setup
expect 'succeeds' [ "$status" = 0 ]
expect 'installs as root, without questions' called '^sudo env .*DEBIAN_FRONTEND=noninteractive .*install'
expect 'plans as the user' never_called 'sudo.* -s '

what='no apt'
machine
rm "$bin/apt-get"
run_setup
expect 'goes on' [ "$status" = 0 ]
expect 'says so' said 'no apt'

what='something would be removed'
machine
stub apt-get "echo \"\$*\" >>$calls; case \"\$*\" in -s*) echo 'Remv other (1.0)' ;; esac"
run_setup Kokkos_ROOT=/opt/kokkos
expect 'fails' [ "$status" != 0 ]
expect 'names it' said 'remove other'
expect 'installs nothing' never_called '^-q -y'

what='a package that apt does not know'
machine
stub apt-get "echo \"\$*\" >>$calls; case \"\$*\" in -s*) echo 'E: Unable to locate package cmake'; exit 100 ;; esac"
run_setup Kokkos_ROOT=/opt/kokkos
expect 'fails' [ "$status" != 0 ]
expect 'shows why' said 'Unable to locate package cmake'
expect 'installs nothing' never_called '^-q -y'

what='an installation that fails'
machine
stub apt-get "echo \"\$*\" >>$calls; case \"\$*\" in -q*-y*) echo 'E: disk full'; exit 100 ;; esac"
run_setup Kokkos_ROOT=/opt/kokkos
expect 'fails' [ "$status" != 0 ]
expect 'shows why' said 'disk full'

[ "$failures" = 0 ] || exit 1
echo 'every machine was set up as expected'
