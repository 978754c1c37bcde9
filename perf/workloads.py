# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sequence lengths of the three workloads of arXiv 2508.06001, as data codes.

A code g<ranks>b<samples>i<pixels>f<frames>s<0|1> gives each of `ranks` neighbouring ranks `samples` samples of
`frames` square images of `pixels`, of which s1 keeps one latent frame for 3.4. A token is a patch of 16 x 16 pixels.
A rank's visual tokens are scaled by a factor in [0.96, 1.04], and each sample has 0 to 392 text tokens besides.
"""

import random
import re
from typing import NamedTuple

CODES = {
    "lowres": "g32b32i256f1s0",
    "mixres": "g16b4i256f1s0 g4b5i512f1s0 g4b5i1024f1s0 g8b1i2048f1s0",
    "joint": "g8b4i256f1s0 g2b5i512f1s0 g2b5i1024f1s0 g4b1i2048f1s0 "
             "g1b10i256f4s0 g3b1i512f4s0 g8b2i256f85s1 g4b1i512f85s1",
}


class Kind(NamedTuple):
    ranks: int
    samples: int
    visual_tokens: int

    @classmethod
    def parse(cls, code):
        ranks, samples, pixels, frames, strided = map(int, re.findall(r"\d+", code))
        if strided:
            frames = max(int(frames / 3.4), 1)
        return cls(ranks, samples, (pixels // 16) ** 2 * frames)


def draw(workload, seed, ranks=32, shuffled=False):
    """A list of lengths for each rank; a multiple of 32 ranks. Shuffled, the ranks come in random order."""
    if ranks < 1 or ranks % 32:
        raise ValueError(f"{ranks} ranks: give a multiple of 32")
    numbers = random.Random(seed)
    kinds = [Kind.parse(code) for code in CODES[workload].split()]
    rows = []
    while len(rows) < ranks:
        for kind in kinds:
            for _ in range(kind.ranks):
                visual = int(kind.visual_tokens * numbers.uniform(0.96, 1.04))
                rows.append([visual + numbers.randint(0, 392) for _ in range(kind.samples)])
    if shuffled:
        numbers.shuffle(rows)
    return rows
