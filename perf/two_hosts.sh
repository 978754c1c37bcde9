#!/usr/bin/env bash
# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# perf/two_hosts.sh [PROGRAM]: what a plan that knows the nodes spares the link between them.
#
# Runs `knapformer simulate` on four ranks, two on each of two hosts, and counts the bytes that cross the
# link. The hosts are two network namespaces of this machine, joined by a pair of virtual interfaces that
# are slowed down to RATE (default 1gbit) and, where the kernel can (netem), delayed by DELAY (none).
# Needs root, Open MPI, and ip and tc (Debian: iproute2); leaves nothing behind.
# ROUNDS=3 and STEPS=10: every plan runs once a round; the medians of the rounds are printed.
set -euo pipefail
export LC_ALL=C

program=$(realpath "${1:-build/knapformer}")
rounds=${ROUNDS:-3} steps=${STEPS:-10} rate=${RATE:-1gbit} delay=${DELAY:-}
name=kf$$
scratch=$(mktemp -d)

fail() { printf 'two_hosts: %s\n' "$*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail 'network namespaces need root'
for tool in ip tc unshare python3 mpirun; do
  command -v "$tool" >/dev/null || fail "there is no $tool"
done
[ -x "$program" ] || fail "there is no $program"
[[ "$(mpirun --version)" == *"Open MPI"* ]] || fail 'mpirun is not that of Open MPI'

clean_up() {
  ip netns del ${name}a 2>/dev/null || true
  ip netns del ${name}b 2>/dev/null || true
  rm -rf "$scratch"
}
trap clean_up EXIT

# A host: a namespace with one end of the pair, which sends no faster than the rate.
ip netns add ${name}a
ip netns add ${name}b
ip link add ${name}a netns ${name}a type veth peer name ${name}b netns ${name}b
slowed="$rate"
for host in a b; do
  namespace=$name$host
  address=10.213.77.$([ $host = a ] && echo 1 || echo 2)
  ip -n $namespace link set lo up
  ip -n $namespace address add $address/24 dev $namespace
  ip -n $namespace link set $namespace up
  ip netns exec $namespace tc qdisc add dev $namespace root handle 1: tbf rate "$rate" burst 256kb latency 100ms
  [ -z "$delay" ] ||
    ip netns exec $namespace tc qdisc add dev $namespace parent 1: handle 2: netem delay "$delay" 2>/dev/null ||
    fail "this kernel cannot delay packets (netem); leave DELAY away"
done
[ -z "$delay" ] || slowed+=", $delay each way"

# What mpirun calls in place of ssh: HOST COMMAND...
cat >"$scratch/agent" <<AGENT
#!/bin/sh
shift
exec ip netns exec ${name}b unshare --uts sh -c "hostname ${name}b; \$*"
AGENT
chmod +x "$scratch/agent"

# Four ranks, on 10.213.77.1 and .2: shared memory on a host, TCP between them.
run_ranks() {
  ip netns exec ${name}a unshare --uts sh -c "hostname ${name}a; exec \"\$@\"" sh \
    timeout 300 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 OMP_PROC_BIND=false \
    mpirun -n 4 --host 10.213.77.1:2,10.213.77.2:2 --map-by slot --bind-to none --oversubscribe \
    --mca plm_rsh_agent "$scratch/agent" --mca pml ob1 --mca btl self,vader,tcp \
    --mca btl_tcp_if_include 10.213.77.0/24 --mca oob_tcp_if_include 10.213.77.0/24 \
    -x OMP_NUM_THREADS -x OMP_PROC_BIND "$@"
}

# Bytes that have crossed the link so far, both ways.
crossed() {
  ip netns exec ${name}a cat /sys/class/net/${name}a/statistics/{tx,rx}_bytes 2>/dev/null | awk '{s += $1} END {print s}'
}

# One run: prints the bytes per step that it put on the link, and the seconds of a balanced step. `simulate`
# takes the steps twice, at home and balanced, and sends tokens in the second pass alone.
measure() {
  local before
  before=$(crossed)
  run_ranks "$program" simulate "${model[@]}" "$@" --json "$scratch/out.json" >"$scratch/log" 2>&1 ||
    { tail -n 20 "$scratch/log" >&2; fail "the run failed: $*"; }
  python3 - "$scratch/out.json" "$steps" $(($(crossed) - before)) <<'PYTHON'
import json, sys
out, steps = json.load(open(sys.argv[1])), int(sys.argv[2])
print(int(sys.argv[3]) / steps, out["balanced"]["seconds"] / steps)
PYTHON
}

# Narrow and shallow, so that tokens outweigh gradients. Rank 0 to 3 load videos, images of two sizes, and
# small images: both hosts have long and short sequences.
model=(--d-model 128 --heads 4 --layers 2 --gamma 0.5 --peak-gflops 20 --steps "$steps" --warmup 0)
data=(--data-codes g1b2i512f17s0,g1b8i256f1s0,g1b1i1024f1s0,g1b12i256f1s0)
fast=(--bandwidth-within 5e9 --flops 1e10)
nodes=(--ranks-per-node 2 --bandwidth-between 1.25e8)
plans=(home aware blind g1n4 g4n1)
arguments_of() {
  case $1 in
    home)  echo --data-codes g4b1i256f1s0 --max-text-tokens 0 ;;
    aware) echo "${data[@]}" "${fast[@]}" "${nodes[@]}" --topology elastic ;;
    blind) echo "${data[@]}" "${fast[@]}" --ranks-per-node 4 --topology elastic ;;
    *)     echo "${data[@]}" "${fast[@]}" "${nodes[@]}" --topology "$1" ;;
  esac
}

for round in $(seq "$rounds"); do
  for plan in "${plans[@]}"; do
    # shellcheck disable=SC2046  # one word an argument
    echo "$plan $(measure $(arguments_of "$plan"))" >>"$scratch/measured"
  done
done
python3 - "$scratch/measured" "$slowed" "$rounds" "$steps" <<'PYTHON'
import statistics, sys
rows = {}
for line in open(sys.argv[1]):
    plan, sent, seconds = line.split()
    rows.setdefault(plan, []).append((float(sent), float(seconds)))
middle = {p: [statistics.median(column) for column in zip(*r)] for p, r in rows.items()}
home = middle.pop("home")[0]  # gradients, metadata and starting up
print(f"two hosts of two ranks, {sys.argv[2]}; medians of {sys.argv[3]} rounds of {sys.argv[4]} steps")
print(f"{'plan':36}{'MB/step for tokens':>20}{'ratio':>8}{'step':>11}{'ratio':>8}")
names = {"aware": "elastic, knows the two nodes", "blind": "elastic, takes them for one node"}
for plan, (sent, seconds) in middle.items():
    a = middle["aware"]
    print(f"{names.get(plan, plan):36}{(sent - home) / 1e6:20.2f}{(sent - home) / (a[0] - home):8.2f}"
          f"{seconds * 1e3:8.1f} ms{seconds / a[1]:8.2f}")
print(f"on top, with any plan: {home / 1e6:.2f} MB/step of gradients and metadata (measured with nothing to move)")
PYTHON
