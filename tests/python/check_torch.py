# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The recipe of the package's README that moves tokens with PyTorch, on four processes, against the library's own routing.

Run with the package and PyTorch at hand; run.py does. The arguments: the README, mpiexec, and the program test_python_routed_rows.
"""

import datetime
import os
import re
import subprocess
import sys
import tempfile

import knapformer
import torch
import torch.distributed as dist
import torch.multiprocessing

RANKS, HEADS = 4, 6
CASES = {"elastic": [[4000, 40], [40, 40, 0], [], [300]], "g2n2": [[7, 1], [], [90, 0, 33], [5]],
         "g1n4": [[100, 3, 50], [2], [8, 8], [1]], "g4n1": [[401], [2], [], []]}


def recipe(readme):
    with open(readme) as file:
        [code] = [code for code in re.findall(r"```py\n(.*?)```", file.read(), re.DOTALL) if "all_to_all_single" in code]
    return code


def work(rank, code, folder, topology, results):
    """One process of the recipe: what it then has goes into `results`."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{folder}/{topology}", rank=rank, world_size=RANKS,
                            timeout=datetime.timedelta(seconds=60))
    lengths = CASES[topology]
    plan = knapformer.plan(lengths, topology=topology, heads=HEADS, d_model=3072, gamma=0.5)
    first = sum(len(row) for row in lengths[:rank])
    rows = [(first + i, token) for i, length in enumerate(lengths[rank]) for token in range(length)]
    x = torch.tensor(rows, dtype=torch.int64).reshape(-1, 2)
    before = x.clone()
    names = {"plan": plan, "x": x, "torch": torch, "dist": dist}
    exec(code, names)
    assert torch.equal(names["x"], before), "the tokens are not home again"
    results[rank] = names["routed"].tolist()
    dist.destroy_process_group()


def main():
    readme, mpiexec, program = sys.argv[1:]
    code = recipe(readme)
    for topology, lengths in CASES.items():
        with tempfile.TemporaryDirectory() as folder, torch.multiprocessing.Manager() as manager:
            results = manager.dict()
            torch.multiprocessing.spawn(work, (code, folder, topology, results), nprocs=RANKS)
            found = [results[rank] for rank in range(RANKS)]
        words = [",".join(map(str, row)) or "-" for row in lengths]
        done = subprocess.run([mpiexec, "-n", str(RANKS), program, topology, str(HEADS), *words], text=True, check=True,
                              stdout=subprocess.PIPE, timeout=60)
        expected = [[] for _ in range(RANKS)]
        for line in done.stdout.splitlines():
            rank, *row = map(int, line.split())
            expected[rank].append(row)
        assert found == expected, f"{topology}: {found} is not {expected}"
        print(f"{topology}: {sum(map(len, found))} rows are where the library routes them")


if __name__ == "__main__":
    main()
