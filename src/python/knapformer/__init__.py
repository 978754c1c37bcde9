# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The planner of KnapFormer: which ranks compute which tokens and heads of which sequences.

`plan()` makes a `Plan` for a group of ranks from the lengths of their sequences. It needs neither
MPI nor a GPU, and every rank that is given the same numbers makes the same plan.
"""

from ._core import Error, Plan, PlanReport, Splits
from ._machine import Machine
from ._planner import plan

__all__ = ["Error", "Machine", "Plan", "PlanReport", "Splits", "plan"]

for _public in (Error, Plan, PlanReport, Splits):
    _public.__module__ = __name__
del _public
