# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""knapformer/trace.py reads what the library wrote. The arguments: that file, and the program write_example."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

MODULE, WRITE_EXAMPLE = sys.argv.pop(1), sys.argv.pop(1)
spec = importlib.util.spec_from_file_location("trace", MODULE)  # the package itself need not be built for this
trace = importlib.util.module_from_spec(spec)
spec.loader.exec_module(trace)


class TraceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.folder.name, "example.h5")
        subprocess.run([WRITE_EXAMPLE, cls.path], check=True, timeout=60)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def changed(self, change):
        path = os.path.join(self.folder.name, "changed.h5")
        shutil.copy(self.path, path)
        with h5py.File(path, "r+") as file:
            change(file)
        return path

    def test_what_was_written(self):
        with trace.Trace(self.path) as read:
            self.assertEqual(read.steps, 5)
            self.assertEqual(read.attributes["topology"], "g1n2+g2n1")
            self.assertEqual((read.attributes["ranks"], read.attributes["gamma"]), (4, 0.5))
            self.assertEqual(read.attributes["seed"], 2**64 - 2)
            np.testing.assert_array_equal(read["step/seconds"], 0.5 + np.arange(5))
            np.testing.assert_array_equal(read["step/balanced"], [0, 1, 0, 0, 1])
            self.assertEqual(read["rank/busy_seconds"].shape, (5, 4))
            self.assertEqual(read["plan/hash"].shape, (5, 2))
            self.assertEqual(read.units("rank/busy_seconds"), "s")
            self.assertIn("rank/bytes_routed", read.keys())
            self.assertAlmostEqual(read.speedup(), np.mean([0.5, 2.5, 3.5]) / np.mean([1.5, 4.5]))

    def test_lengths(self):
        with trace.Trace(self.path) as read:
            for step in range(5):
                expected = [[step * 1000 + r * 10 + i for i in range((step + r) % 4)] for r in range(4)]
                self.assertEqual([lengths.tolist() for lengths in read.lengths(step)], expected)
            for step in (-1, 5):
                with self.assertRaises(IndexError):
                    read.lengths(step)
            with self.assertRaises(KeyError):
                read["lengths/values"]

    def test_a_step_that_is_not_complete(self):
        def lose_the_last(file):
            file["step/index"][-1] = -1

        with trace.Trace(self.changed(lose_the_last)) as read:
            self.assertEqual(read.steps, 4)
            self.assertEqual(read["rank/busy_seconds"].shape, (4, 4))
            self.assertEqual(len(read["step/seconds"]), 4)

    def test_steps_that_come_while_it_is_open(self):
        path = os.path.join(self.folder.name, "growing.h5")
        shutil.copy(self.path, path)
        with h5py.File(path, "r+", libver="latest") as file:
            names = [f"{group}/{name}" for group in ("step", "plan", "rank") for name in file[group]]
            last = {name: file[name][-1] for name in names}
            offsets = file["lengths/offsets"][-4:]
            file.swmr_mode = True
            with trace.Trace(path) as read:
                self.assertEqual(read.steps, 5)
                file["lengths/offsets"].resize(len(file["lengths/offsets"]) + 4, axis=0)
                file["lengths/offsets"][-4:] = offsets[-1]
                for name in sorted(names, key="step/index".__eq__):  # the index last, as the writer does
                    file[name].resize(6, axis=0)
                    file[name][-1] = last[name]
                    file[name].flush()
                file.flush()
                self.assertEqual(read.steps, 5)
                self.assertEqual(read.refresh(), 6)
                self.assertEqual(read["rank/busy_seconds"].shape, (6, 4))
                self.assertEqual([len(lengths) for lengths in read.lengths(5)], [0] * 4)

    def test_what_is_no_trace(self):
        def another_version(file):
            file.attrs["schema_version"] = 2

        def no_trace(file):
            del file.attrs["format"]

        for change, says in ((another_version, "schema version 2"), (no_trace, "not a KnapFormer trace")):
            with self.assertRaisesRegex(trace.TraceError, says):
                trace.Trace(self.changed(change))
        with self.assertRaisesRegex(trace.TraceError, "missing.h5"):
            trace.Trace(os.path.join(self.folder.name, "missing.h5"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
