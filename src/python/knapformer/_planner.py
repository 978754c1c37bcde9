# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""plan()"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import SupportsFloat, SupportsIndex, Union

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._arguments import by_rank, int64, integers, limit, plural, real
from ._machine import Machine

Integers = Union[Sequence[int], NDArray[np.integer]]
"""A one-dimensional sequence or array of integers of any type."""


def plan(
    lengths_by_rank: Iterable[Integers] | None = None,
    *,
    lengths: Integers | None = None,
    offsets: Integers | None = None,
    topology: str = "elastic",
    heads: SupportsIndex = 24,
    d_model: SupportsIndex = 3072,
    gamma: SupportsFloat = 0.5,
    constant: SupportsIndex = 0,
    costs_by_rank: Iterable[Integers] | None = None,
    costs: Integers | None = None,
    machine: Machine = Machine(),
    max_tokens_per_rank: SupportsIndex | None = None,
    max_attention_tokens_per_rank: SupportsIndex | None = None,
    budget: SupportsIndex | None = None,
) -> _core.Plan:
    """Assigns every sequence to a bag of ranks so that the slowest rank finishes early.

    Args:
        lengths_by_rank: for each rank of the group the lengths of its sequences in tokens, each
            0 to 2^40. Ranks may have any number of sequences, or none.
        lengths, offsets: the same as flat arrays [sequences] and [ranks + 1]: rank r has
            lengths[offsets[r]:offsets[r + 1]]. Contiguous int64 arrays are used without a copy;
            do not change them during the call.
        topology: "elastic", "elastic<largest degree>", or bags of consecutive ranks as terms
            g<degree>n<count> joined by "+", for example "g1n4+g4n1".
        heads: attention heads of the model, 1 to 65536.
        d_model, gamma, constant: a sequence of L tokens costs constant + 6 d_model L + gamma L^2.
            1 to 2^20, 0 to 1024, 0 to 2^40.
        costs_by_rank: the work of every sequence, shaped like `lengths_by_rank`, instead of that
            formula. Whole numbers, not negative.
        costs: the same as a flat array, shaped like `lengths`.
        machine: what the time is predicted for.
        max_tokens_per_rank, max_attention_tokens_per_rank: caps, None for no cap. Attention
            tokens are the length times a rank's share of the heads, summed over its sequences.
        budget: how many changes to try in search of something better than the first plan, 0 for
            none; None for a few changes per sequence.

    Other threads of Python run meanwhile. The result depends on the arguments alone, not on time.

    Raises:
        Error: (a ValueError) for numbers out of range, a topology of another number of ranks, or
            caps that cannot be met; the message names the values.
        TypeError: for anything else than integers where integers are needed.
    """
    flat_lengths, flat_offsets = _flat_lengths(lengths_by_rank, lengths, offsets)
    if not isinstance(topology, str):
        raise TypeError(f"topology is {topology!r}; expected text such as 'elastic' or 'g1n4+g4n1'")
    if not isinstance(machine, Machine):
        raise TypeError(f"machine is {machine!r}; expected a knapformer.Machine")
    return _core.plan_arrays(
        flat_lengths,
        flat_offsets,
        _flat_costs(costs_by_rank, costs, flat_lengths, flat_offsets),
        topology=topology,
        heads=int64("heads", heads),
        d_model=int64("d_model", d_model),
        gamma=real("gamma", gamma),
        constant=int64("constant", constant),
        machine=machine._numbers(),
        max_tokens_per_rank=limit("max_tokens_per_rank", max_tokens_per_rank, _core.NO_CAP),
        max_attention_tokens_per_rank=limit(
            "max_attention_tokens_per_rank", max_attention_tokens_per_rank, _core.NO_CAP
        ),
        budget=limit("budget", budget, _core.DEFAULT_BUDGET),
    )


def _flat_lengths(
    lengths_by_rank: Iterable[Integers] | None, lengths: Integers | None, offsets: Integers | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if lengths_by_rank is not None and lengths is None and offsets is None:
        return by_rank("lengths_by_rank", lengths_by_rank)
    if lengths_by_rank is None and lengths is not None and offsets is not None:
        return integers("lengths", lengths), integers("offsets", offsets)
    raise TypeError("plan() takes either lengths_by_rank, or lengths and offsets")


def _flat_costs(
    costs_by_rank: Iterable[Integers] | None,
    costs: Integers | None,
    lengths: NDArray[np.int64],
    offsets: NDArray[np.int64],
) -> NDArray[np.int64]:
    """No costs at all, or one for each sequence."""
    if costs_by_rank is not None and costs is not None:
        raise TypeError("plan() takes either costs_by_rank or costs")
    if costs_by_rank is not None:
        flat, cost_offsets = by_rank("costs_by_rank", costs_by_rank)
        if not np.array_equal(cost_offsets, offsets):
            raise _core.Error(_mismatch(np.diff(cost_offsets), np.diff(offsets)))
        return flat
    flat = np.empty(0, dtype=np.int64) if costs is None else integers("costs", costs)
    if costs is not None and flat.size != lengths.size:
        raise _core.Error(f"{plural(flat.size, 'cost')} for {plural(lengths.size, 'length')}; give one for each")
    return flat


def _mismatch(costs: NDArray[np.int64], lengths: NDArray[np.int64]) -> str:
    if costs.size != lengths.size:
        return f"there are costs of {plural(costs.size, 'rank')}, but lengths of {lengths.size}"
    rank = int(np.flatnonzero(costs != lengths)[0])
    has = f"{plural(costs[rank], 'cost')} for {plural(lengths[rank], 'length')}"
    return f"rank {rank} has {has}; give one for each"
