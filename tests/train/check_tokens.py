#!/usr/bin/env python3
# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares print_tokens with the formula, computed here, for every sample of the manifests.

usage: check_tokens.py PRINT_TOKENS MANIFEST...
"""
import csv
import math
import subprocess
import sys

program, manifests = sys.argv[1], sys.argv[2:]
for manifest in manifests:
    with open(manifest, newline="") as file:
        samples = [{k: int(v) for k, v in row.items()} for row in csv.DictReader(file)]
    assert samples
    for patch, temporal in (16, 3.4), (48, 6.5), (70.4, 12), (1, 1):
        expected = []
        for s in samples:
            frames = max(1, math.floor(s["frames"] / temporal)) if s["frames"] > 1 else 1
            expected.append(math.floor(s["width"] / patch) * math.floor(s["height"] / patch) * frames
                            + s["caption_tokens"])
        output = subprocess.run([program, manifest, str(patch), str(temporal)], check=True,
                                capture_output=True, text=True).stdout
        assert [int(line) for line in output.split()] == expected, (manifest, patch, temporal)
    print(f"{manifest}: {len(samples)} samples agree")
