# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Traces that `knapformer simulate --trace` writes, as NumPy arrays. Needs h5py (`pip install knapformer[trace]`).

    with Trace("run.h5") as trace:
        balanced = trace["step/balanced"] == 1
        print(trace.attributes["topology"], trace["step/seconds"][balanced].mean())

docs/trace.md of the project says what a trace has in it. This file needs nothing else of the package: it may be copied.
"""

import h5py
import numpy as np

__all__ = ["Trace", "TraceError"]

FORMAT = "KnapFormer trace"
SCHEMA_VERSION = 1


class TraceError(ValueError):
    """The file is no trace, or one of another layout."""


class Trace:
    """A trace opened for reading. Also one that is being written, or whose writer was killed: steps that are not complete
    are left out, and `refresh()` sees those that came since."""

    def __init__(self, path):
        try:
            self._file = h5py.File(path, "r", libver="latest", swmr=True)
        except OSError as error:
            raise TraceError(f"{path}: {error}") from error
        try:
            self.attributes = {name: _plain(value) for name, value in self._file.attrs.items()}
            if self.attributes.get("format") != FORMAT:
                raise TraceError(f"{path} is not a KnapFormer trace")
            version = self.attributes.get("schema_version")
            if version != SCHEMA_VERSION:
                raise TraceError(f"{path} has schema version {version}; this reads {SCHEMA_VERSION}")
            self.refresh()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._file.close()

    def refresh(self):
        """Looks for steps written since the trace was opened. Returns how many complete ones there are."""
        index = self._file["step/index"]
        index.refresh()
        incomplete = np.flatnonzero(index[:] < 0)
        self.steps = int(incomplete[0]) if incomplete.size else int(index.shape[0])
        for name in self._names():
            self._file[name].refresh()
        if any(self._file[name].shape[0] < self.steps for name in self._names() if not name.startswith("lengths/")):
            raise TraceError(f"{self._file.filename} is damaged: it has fewer rows than steps")
        return self.steps

    def _names(self):
        return [f"{group}/{name}" for group in ("step", "plan", "rank", "lengths") for name in self._file[group]]

    def keys(self):
        """The datasets, e.g. "rank/busy_seconds"."""
        return self._names()

    def __getitem__(self, name):
        """A dataset, cut to the complete steps: [steps], or [steps, groups], or [steps, ranks]."""
        if name.startswith("lengths/"):
            raise KeyError(f"{name}: use lengths(step)")
        return self._file[name][: self.steps]

    def units(self, name):
        return _plain(self._file[name].attrs["units"])

    def lengths(self, step):
        """Sequence lengths of a row: an array for each rank."""
        if not 0 <= step < self.steps:
            raise IndexError(f"step {step} of {self.steps}")
        ranks = int(self.attributes["ranks"])
        offsets = self._file["lengths/offsets"][step * ranks: (step + 1) * ranks + 1]
        values = self._file["lengths/values"][offsets[0]: offsets[-1]]
        return np.split(values, (offsets[1:-1] - offsets[0]))

    def speedup(self):
        """Time of the steps without balancing over that of the same steps with; NaN where one of them is missing."""
        balanced, seconds = self["step/balanced"] == 1, self["step/seconds"]
        if balanced.all() or not balanced.any():
            return float("nan")
        return float(seconds[~balanced].mean() / seconds[balanced].mean())


def _plain(value):
    return value.decode() if isinstance(value, bytes) else value.item() if isinstance(value, np.generic) else value
