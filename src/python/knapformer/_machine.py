# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a plan's time is predicted for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from ._arguments import floats, int64, real
from ._core import MachineNumbers

_DEFAULT = MachineNumbers()


@dataclass(frozen=True)
class Machine:
    """The ranks, the links between them, and the model's depth.

    In a step a rank computes four forward passes (backward counts two, recomputation one) at
    `flops` times its speed. Ulysses exchanges happen before and after attention, three times a
    layer; tokens are routed four times. An exchange takes the larger of the bytes sent and
    received over the bandwidth, within and between nodes one after the other, plus a latency for
    every peer.

    Immutable; `dataclasses.replace` makes a changed copy. Ranges are checked when planning.
    """

    ranks_per_node: int = _DEFAULT.ranks_per_node
    """Consecutive ranks: rank r is on node r // ranks_per_node. 1 to 2^24."""
    flops: float = _DEFAULT.flops
    """Of a rank of speed 1, per second. 1 to 1e21."""
    bandwidth_within: float = _DEFAULT.bandwidth_within
    """Bytes per second of a rank, to ranks of its node. 1 to infinity."""
    bandwidth_between: float = _DEFAULT.bandwidth_between
    """Bytes per second of a rank, to ranks of other nodes. 1 to infinity."""
    latency: float = _DEFAULT.latency
    """Seconds per peer and exchange. 0 to 1000."""
    layers: int = _DEFAULT.layers
    """Of the model. 1 to 2^20."""
    bytes_per_element: int = _DEFAULT.bytes_per_element
    """Of what is exchanged. 1 to 64."""
    speeds: Sequence[float] = ()
    """Relative, one for each rank, 2^-10 to 2^10; empty: all 1."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "speeds", tuple(floats("machine.speeds", self.speeds)))

    @classmethod
    def without_communication(cls) -> Machine:
        """Communication costs nothing: plans then minimise the largest load."""
        free = MachineNumbers.without_communication()
        return cls(**{field.name: getattr(free, field.name) for field in fields(cls)})

    def _numbers(self) -> MachineNumbers:
        return MachineNumbers(
            ranks_per_node=int64("machine.ranks_per_node", self.ranks_per_node),
            flops=real("machine.flops", self.flops),
            bandwidth_within=real("machine.bandwidth_within", self.bandwidth_within),
            bandwidth_between=real("machine.bandwidth_between", self.bandwidth_between),
            latency=real("machine.latency", self.latency),
            layers=int64("machine.layers", self.layers),
            bytes_per_element=int64("machine.bytes_per_element", self.bytes_per_element),
            speeds=list(self.speeds),
        )
