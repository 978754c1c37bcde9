# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""That bench_route runs and prints its counters, once; times are not looked at. The arguments are the command."""

import json
import subprocess
import sys

COUNTERS = {"alltoallv_us", "memcpy_us", "ratio_to_alltoallv", "ratio_to_memcpy"}

done = subprocess.run([*sys.argv[1:], "--pairs=2", "--benchmark_format=json", "--benchmark_filter=fp32/1MB|2-byte/1MB|^prep"],
                      text=True, stdout=subprocess.PIPE, check=True, timeout=50)
cases = {case["name"]: case for case in json.loads(done.stdout)["benchmarks"]}
for movement in ("route", "reverse_route", "pre_attention", "post_attention"):
    for kind in ("fp32", "2-byte"):
        attention = "attention" in movement
        # Of 256 tokens: all ranks together have 512 rows of fp32, and twice as many of the other kind.
        for sequences in ((2,) if kind == "fp32" else (4,)) if attention else (2, 64):
            case = cases.pop(f"{movement}/{kind}/1MB/sequences:{sequences}/ranks:2/iterations:1/manual_time")
            assert all(case[counter] > 0 for counter in COUNTERS), case
            runs = sequences if attention else sequences // 2
            for part in ("1048576 bytes and ", "2 interleaved pairs", f" {runs} runs of {2**19 // runs} bytes"):
                assert part in case["label"], (part, case)
assert all(name.startswith("prepare/mixres/2x32/") for name in cases), cases.keys()
assert cases and all(case["metadata_gather_us"] > 0 and case["mpi_allgather_us"] > 0 for case in cases.values()), cases

refused = subprocess.run([*sys.argv[1:], "--pairs=none"], text=True, stderr=subprocess.PIPE, timeout=50)
assert refused.returncode != 0 and "the number of pairs" in refused.stderr, refused
