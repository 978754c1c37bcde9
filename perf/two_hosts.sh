#!/usr/bin/env bash
# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# perf/two_hosts.sh [PROGRAM]: what a plan that knows the nodes spares the link between them.
#
# Runs `knapformer simulate` on four ranks, two on each of two hosts, and counts the bytes that cross the
# link. The hosts are two network namespaces of this machine, joined by a pair of virtual interfaces that
# are slowed down to RATE (default 1gbit) and, where the kernel can (netem), delayed by DELAY (none).
# ROUNDS=3 and STEPS=10: every plan runs once a round; the medians of the rounds are printed. Fails when
# knowing the nodes spares nothing. Needs root, Open MPI, and ip and tc (Debian: iproute2); leaves
# nothing behind.
set -euo pipefail
export LC_ALL=C

program=$(realpath "${1:-build/knapformer}")
rounds=${ROUNDS:-3} steps=${STEPS:-10} rate=${RATE:-1gbit} delay=${DELAY:-}
name=kf$$
network=10.213.77

fail() { printf 'two_hosts: %s\n' "$*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail 'network namespaces need root'
for tool in ip tc unshare python3 mpirun; do
  command -v "$tool" >/dev/null || fail "there is no $tool"
done
[ -x "$program" ] || fail "there is no $program"
[[ "$(mpirun --version)" == *"Open MPI"* ]] || fail 'mpirun is not that of Open MPI'

scratch=$(mktemp -d)
clean_up() {
  for host in a b; do
    ip netns pids $name$host 2>/dev/null | xargs -r kill -9 2>/dev/null || true
    ip netns del $name$host 2>/dev/null || true
  done
  rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# A host: a namespace with one end of the pair, which sends no faster than the rate.
ip netns add ${name}a
ip netns add ${name}b
ip link add ${name}a netns ${name}a type veth peer name ${name}b netns ${name}b
address=0
for host in a b; do
  namespace=$name$host
  address=$((address + 1))
  ip -n $namespace link set lo up
  ip -n $namespace address add $network.$address/24 dev $namespace
  ip -n $namespace link set $namespace up
  tc -n $namespace qdisc add dev $namespace root handle 1: tbf rate "$rate" burst 256kb latency 100ms
  [ -z "$delay" ] ||
    tc -n $namespace qdisc add dev $namespace parent 1: handle 2: netem delay "$delay" 2>/dev/null ||
    fail "this kernel cannot delay packets (netem); leave DELAY away"
done

# What mpirun calls in place of ssh: HOST COMMAND...
cat >"$scratch/agent" <<AGENT
#!/bin/sh
shift
exec ip netns exec ${name}b unshare --uts sh -c "hostname ${name}b; \$*"
AGENT
chmod +x "$scratch/agent"

# Four ranks: shared memory on a host, TCP between them.
run_ranks() {
  ip netns exec ${name}a unshare --uts sh -c "hostname ${name}a; exec \"\$@\"" sh \
    timeout 300 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 OMP_PROC_BIND=false \
    mpirun -n 4 --host $network.1:2,$network.2:2 --map-by slot --bind-to none --oversubscribe \
    --mca plm_rsh_agent "$scratch/agent" --mca pml ob1 --mca btl self,vader,tcp \
    --mca btl_tcp_if_include $network.0/24 --mca oob_tcp_if_include $network.0/24 \
    -x OMP_NUM_THREADS -x OMP_PROC_BIND "$@"
}

# Bytes that have crossed the link so far, both ways.
crossed() {
  local counts
  mapfile -t counts < <(ip netns exec ${name}a cat /sys/class/net/${name}a/statistics/{tx,rx}_bytes)
  echo $((counts[0] + counts[1]))
}

# measure PLAN ARGUMENTS...: notes the bytes per step that one run puts on the link, and the seconds of a
# balanced step. `simulate` takes the steps twice, at home and balanced, and moves tokens in the second alone.
measure() {
  local plan=$1 before
  shift
  before=$(crossed)
  # In the background, so that a signal to this script need not wait for the ranks.
  run_ranks "$program" simulate "${model[@]}" "$@" --json "$scratch/out.json" >"$scratch/log" 2>&1 </dev/null &
  wait $! || { tail -n 20 "$scratch/log" >&2; fail "the run failed: $*"; }
  python3 - "$plan" "$scratch/out.json" "$steps" $(($(crossed) - before)) >>"$scratch/measured" <<'PYTHON'
import json, sys
plan, out, steps = sys.argv[1], json.load(open(sys.argv[2])), int(sys.argv[3])
print(plan, int(sys.argv[4]) / steps, out["balanced"]["median_step_seconds"])
PYTHON
}

# Both hosts load about as much work, their ranks do not: images of 256 pixels 12 and 1 on one host, 2 on the
# other, beside 3 of 512 pixels. Narrow and shallow, so that tokens outweigh gradients.
model=(--d-model 128 --heads 4 --layers 2 --gamma 0.5 --peak-gflops 20 --steps "$steps" --warmup 0)
data=(--data-codes g1b12i256f1s0,g1b1i256f1s0,g1b3i512f1s0,g1b2i256f1s0)
fast=(--bandwidth-within 5e9 --flops 1e10)
nodes=(--ranks-per-node 2 --bandwidth-between 1.25e8)
for round in $(seq "$rounds"); do
  measure home --data-codes g4b1i256f1s0 --max-text-tokens 0
  measure aware "${data[@]}" "${fast[@]}" "${nodes[@]}" --topology elastic
  measure blind "${data[@]}" "${fast[@]}" --ranks-per-node 4 --topology elastic
  measure g1n4 "${data[@]}" "${fast[@]}" "${nodes[@]}" --topology g1n4
  measure g4n1 "${data[@]}" "${fast[@]}" "${nodes[@]}" --topology g4n1
done

python3 - "$scratch/measured" "$rate${delay:+, $delay each way}" "$rounds" "$steps" <<'PYTHON'
import statistics, sys
rows = {}
for line in open(sys.argv[1]):
    plan, sent, seconds = line.split()
    rows.setdefault(plan, []).append((float(sent), float(seconds)))
middle = {plan: [statistics.median(column) for column in zip(*r)] for plan, r in rows.items()}
home = middle.pop("home")[0]  # gradients, metadata and starting up
print(f"two hosts of two ranks, {sys.argv[2]}; medians of {sys.argv[3]} rounds of {sys.argv[4]} steps")
print(f"{'':36}{'on the link':>16}{'of which tokens':>18}{'ratio':>8}{'step':>13}")
names = {"aware": "elastic, knows the two nodes", "blind": "elastic, takes them for one node"}
aware = middle["aware"][0] - home
for plan, (sent, seconds) in middle.items():
    print(f"{names.get(plan, plan):36}{sent / 1e6:8.2f} MB/step{(sent - home) / 1e6:10.2f} MB/step"
          f"{(sent - home) / aware:8.2f}{seconds * 1e3:10.1f} ms")
print(f"with nothing to move: {home / 1e6:.2f} MB/step, of gradients, metadata and starting up")
if middle["blind"][0] <= middle["aware"][0]:
    sys.exit("two_hosts: knowing the nodes spared the link nothing")
PYTHON
