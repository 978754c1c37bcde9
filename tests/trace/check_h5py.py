#!/usr/bin/env python3
# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Opens the trace of write_example as any user of h5py would, and checks its numbers.

usage: check_h5py.py WRITE_EXAMPLE SCHEMA_DOCUMENT
"""
import os
import subprocess
import sys
import tempfile

import h5py
import numpy as np

program, document = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "trace.h5")
    subprocess.run([program, path], check=True)
    with h5py.File(path) as trace:
        attributes = trace.attrs
        assert attributes["format"].decode() == "KnapFormer trace"
        assert attributes["schema_version"] == 1
        assert (attributes["ranks"], attributes["group_size"]) == (4, 2)
        assert attributes["topology"].decode() == "g1n2+g2n1"
        assert attributes["data"].decode() == "manifest m.csv, über 10 samples"
        assert attributes["seed"] == 2**64 - 2
        assert attributes["gamma"] == 0.5

        steps = np.arange(5)
        ranks = steps[:, None] + np.arange(4) / 64
        assert (trace["step/index"][:] == steps).all()
        assert (trace["step/balanced"][:] == (steps % 3 == 1)).all()
        assert (trace["step/seconds"][:] == 0.5 + steps).all()
        assert np.isinf(trace["plan/max_over_min_before"][:, 0]).all()
        assert trace["plan/hash"][2, 1] == 0xFEDCBA9876543210 + 201
        assert (trace["rank/compute_seconds"][:] == 4 + ranks).all()
        assert trace["rank/bytes_exchanged"][4, 3] == (4 << 34) + 3

        offsets, values = trace["lengths/offsets"][:], trace["lengths/values"][:]
        assert offsets.shape == (21,) and offsets[0] == 0 and offsets[-1] == len(values)
        assert (np.diff(offsets).reshape(5, 4) == trace["rank/sequences"][:]).all()
        for s in range(5):
            for r in range(4):
                begin, end = offsets[s * 4 + r : s * 4 + r + 2]
                assert list(values[begin:end]) == [s * 1000 + r * 10 + i for i in range((s + r) % 4)]

        text = open(document).read()
        shapes = {"step": (5,), "plan": (5, 2), "rank": (5, 4)}
        for group in trace:
            for name, data in trace[group].items():
                assert data.attrs["units"], data.name
                assert data.shape == shapes.get(group, data.shape), data.name
                assert f"`{data.name}`" in text, f"{document} does not mention {data.name}"
        for name in attributes:
            assert f"`{name}`" in text, f"{document} does not mention attribute {name}"
print("the trace opens in h5py and its numbers are right")
