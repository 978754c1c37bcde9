# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What the job scripts beside this file share; they source it. Works in the folder where sbatch was called.

cd "$SLURM_SUBMIT_DIR"
if [ ! -f perf/run_suite.py ]; then
  echo "$PWD is no checkout of KnapFormer: call sbatch in its root folder" >&2
  exit 1
fi
if [ -n "${SITE_SETUP:-}" ]; then source "$SITE_SETUP"; fi

export OMP_NUM_THREADS=${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}}
# Without it, srun has given tasks one core each since Slurm 22.05.
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}

# run_suite SUITE
run_suite() {
  local output=${OUTPUT:-knapformer-$1-$SLURM_JOB_ID.json}
  echo "$1: $SLURM_NTASKS tasks on $SLURM_JOB_NODELIST, $OMP_NUM_THREADS threads each"
  python3 perf/run_suite.py "$1" --build "${BUILD:-build}" --rounds "${ROUNDS:-5}" --output "$output" \
    --launcher "${LAUNCHER:-srun --mpi=pmix -n {ranks\}}"
}
