#!/usr/bin/env bash
# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Submits a job script to a Slurm of its own: one controller and one node on this machine, started here and stopped at the end.
# Needs root, slurmctld, slurmd and munged (Debian: slurm-wlm, munge); where they are missing it says so and ends with status 77.
#
#   perf/slurm/try_here.sh [sbatch's options] perf/slurm/cpu.sbatch     # stops after LIMIT seconds, 1800 by default
#
# Touches nothing outside a temporary folder; a Slurm that the machine has is left alone.
set -euo pipefail
cd "$(dirname "$0")/../.."

skip() { echo "skipped: $*" >&2; exit 77; }
[ "$(id -u)" = 0 ] || skip "a controller and a node of Slurm can only be started by root"
for program in slurmctld slurmd munged sbatch srun scontrol; do
  command -v "$program" >/dev/null || skip "there is no $program; on Debian: apt-get install slurm-wlm munge"
done
[ $# -gt 0 ] || set -- perf/slurm/cpu.sbatch

folder=$(mktemp -d)
stop() {
  local status=$? file
  for file in slurmd slurmctld munged; do
    if [ -s "$folder/$file.pid" ]; then kill "$(cat "$folder/$file.pid")" 2>/dev/null || true; fi
  done
  if [ "$status" != 0 ]; then tail -n 15 "$folder"/*.log "$folder"/job.out >&2 || true; fi
  sleep 1
  rm -rf "$folder"
}
trap stop EXIT

# Ports of our own, so that a Slurm on this machine is not asked instead.
port=$((20000 + RANDOM % 10000))
host=$(hostname -s)
memory=$(($(sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo) / 1024))
mkdir -p "$folder/state" "$folder/spool"
cat >"$folder/slurm.conf" <<CONF
ClusterName=here
SlurmctldHost=$host
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=pmix
ReturnToService=2
SelectType=select/cons_tres
EnforcePartLimits=ALL
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(getconf _NPROCESSORS_ONLN) RealMemory=$memory
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$folder/slurm.conf

chmod 755 "$folder"
dd if=/dev/urandom of="$folder/munge.key" bs=128 count=1 status=none
chmod 400 "$folder/munge.key"
munged --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
  --log-file="$folder/munged.log" --seed-file="$folder/munge.seed"
slurmctld -f "$SLURM_CONF"
slurmd -f "$SLURM_CONF" -N "$host"

for _ in $(seq 60); do
  state=$(sinfo -h -o %T 2>/dev/null || true)
  [ "$state" != idle ] || break
  sleep 0.5
done
[ "$state" = idle ] || { echo "the node is '$state' after 30 s, not idle" >&2; exit 1; }
sinfo

# Open MPI 4 refuses root, and its OFI transport takes a second to start.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=${OMPI_MCA_btl:-^tcp,ofi}
job=$(sbatch --parsable --output="$folder/job.out" "$@")
echo "submitted job $job"
tail -F -s 0.5 "$folder/job.out" 2>/dev/null &
tail=$!
deadline=$((SECONDS + ${LIMIT:-1800}))
while squeue -h -j "$job" -t pending,running,completing 2>/dev/null | grep -q .; do
  if [ "$SECONDS" -gt "$deadline" ]; then
    echo "not done after ${LIMIT:-1800} s (LIMIT): $(squeue -h -j "$job" -o '%T, %r')" >&2
    scancel "$job"
  fi
  sleep 1
done
sleep 1
kill "$tail" 2>/dev/null || true
state=$(scontrol show job "$job" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p')
echo "job $job: $state"
[ "$state" = COMPLETED ]
