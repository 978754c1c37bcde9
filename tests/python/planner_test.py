# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the package gives back, and that it takes arrays without copying them."""

import dataclasses
import gc
import math
import os
import pathlib
import sys
import threading
import unittest

import knapformer
import numpy as np
from knapformer._arguments import integers

LENGTHS = [[16000, 0, 401], [400, 399, 400], [], [403]]
REPORT_ARRAYS = {"work_before": np.float64, "work_after": np.float64, "tokens_before": np.int64,
                 "tokens_after": np.int64, "attention_tokens": np.float64, "seconds": np.float64}


def flat(lengths_by_rank):
    offsets = np.cumsum([0, *map(len, lengths_by_rank)])
    return np.array([n for row in lengths_by_rank for n in row], dtype=np.int64), offsets


class PlanTest(unittest.TestCase):
    def setUp(self):
        self.plan = knapformer.plan(LENGTHS, topology="g2n2", heads=5)

    def test_arrays(self):
        plan = self.plan
        self.assertEqual((plan.ranks, plan.heads, plan.sequences), (4, 5, 7))
        np.testing.assert_array_equal(plan.homes, [0, 0, 0, 1, 1, 1, 3])
        np.testing.assert_array_equal(plan.lengths, [16000, 0, 401, 400, 399, 400, 403])
        self.assertEqual(plan.chunk_offsets.tolist(), [0, 2, 2, 4, 6, 8, 10, 12])
        self.assertEqual(plan.chunks.shape, (12, 5))
        for i, length in enumerate(plan.lengths):
            chunks = plan.chunks[plan.chunk_offsets[i]:plan.chunk_offsets[i + 1]]
            tokens = heads = 0
            for rank, first_token, n, first_head, h in chunks.tolist():
                self.assertEqual((first_token, first_head), (tokens, heads))
                self.assertIn(rank, range(4))
                tokens, heads = tokens + n, heads + h
            self.assertEqual((tokens, heads), (length, 5 if length else 0))
        plan.validate()

    def test_arrays_are_read_only_views_that_outlive_the_plan(self):
        for name in ("homes", "lengths", "chunk_offsets", "chunks"):
            with self.subTest(name):
                array = getattr(self.plan, name)
                self.assertEqual(array.dtype, np.int64)
                self.assertTrue(np.shares_memory(array, getattr(self.plan, name)))
                with self.assertRaises(ValueError):
                    array[0] = 1
                with self.assertRaises(ValueError):
                    array.flags.writeable = True
        chunks, work = self.plan.chunks, self.plan.report.work_after
        expected = chunks.copy(), work.copy()
        del self.plan
        gc.collect()
        knapformer.plan(LENGTHS)  # takes freed memory, if there is any
        np.testing.assert_array_equal(chunks, expected[0])
        np.testing.assert_array_equal(work, expected[1])

    def test_report(self):
        report = self.plan.report
        for name, dtype in REPORT_ARRAYS.items():
            array = getattr(report, name)
            self.assertEqual((array.dtype, array.shape), (dtype, (4,)), name)
            self.assertFalse(array.flags.writeable, name)
        np.testing.assert_array_equal(report.tokens_before, [16401, 1199, 0, 403])
        tokens_after = np.bincount(self.plan.chunks[:, 0], weights=self.plan.chunks[:, 2], minlength=4)
        np.testing.assert_array_equal(report.tokens_after, tokens_after)
        length = LENGTHS[3][0]
        self.assertEqual(report.work_before[3], 6 * 3072 * length + 0.5 * length**2)
        self.assertAlmostEqual(report.max_over_mean, report.work_after.max() / report.work_after.mean(), delta=1e-12)
        self.assertEqual(report.max_over_min_before, math.inf)
        self.assertEqual(report.step_seconds, report.seconds.max())
        self.assertEqual(report.total_tokens, 18003)
        self.assertGreater(report.plan_seconds, 0)
        self.assertEqual(report.crossed_tokens, 0)

    def test_the_report_has_every_field_of_the_library(self):
        source = pathlib.Path(os.environ["KNAPFORMER_PYTHON_SOURCE"])
        header = (source.parents[1] / "include/knapformer/plan/plan.hpp").read_text()
        struct = header[header.index("struct PlanReport {"):]
        struct = struct[:struct.index("\n};")]
        code = "".join(line.split("//")[0] for line in struct.splitlines()[1:])
        fields = {field.split("=")[0].split()[-1] for field in code.split(";") if field.strip()}
        self.assertGreater(len(fields), 20)
        self.assertEqual(fields, {name for name in dir(knapformer.PlanReport) if not name.startswith("_")})

    def test_groups_without_tokens(self):
        for lengths in ([[]], [[], [], []], [[0], [0, 0]]):
            plan = knapformer.plan(lengths)
            self.assertEqual(plan.ranks, len(lengths))
            self.assertEqual(plan.chunks.shape, (0, 5))
            self.assertEqual(plan.chunk_offsets.tolist(), [0] * (plan.sequences + 1))
            self.assertEqual(plan.splits(0).rows.shape, (0,))

    def test_classes(self):
        self.assertTrue(issubclass(knapformer.Error, ValueError))
        self.assertIn("7 sequences in 12 chunks on 4 ranks", repr(self.plan))
        for name in knapformer.__all__:
            self.assertTrue(getattr(knapformer, name).__doc__, name)
            self.assertTrue(getattr(knapformer, name).__module__.startswith("knapformer"), name)
        with self.assertRaises(TypeError):
            knapformer.Plan()
        with self.assertRaises(AttributeError):
            self.plan.hash = 1

    def test_types_are_installed(self):
        package = pathlib.Path(knapformer.__file__).parent
        self.assertTrue((package / "py.typed").exists())
        stub = (package / "_core.pyi").read_text()
        self.assertIn("class Plan:", stub)
        self.assertIn("def chunks(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None, 5)", stub)


class ArgumentsTest(unittest.TestCase):
    def test_flat_arrays(self):
        lengths, offsets = flat(LENGTHS)
        by_rank = knapformer.plan(LENGTHS, topology="g1n4")
        expected = by_rank.hash
        strided = np.repeat(lengths, 2)[::2]
        unaligned = np.frombuffer(b"." + lengths.tobytes(), np.uint8)[1:].view(np.int64)
        read_only = lengths.copy()
        read_only.flags.writeable = False
        self.assertFalse(strided.flags.c_contiguous or unaligned.flags.aligned)
        for same in (lengths, lengths.tolist(), tuple(lengths), strided, unaligned, read_only, lengths.astype(np.int32),
                     lengths.astype(np.uint64), lengths.astype(">i8"), lengths[::-1].copy()[::-1]):
            for same_offsets in (offsets, offsets.astype(np.uint16), list(offsets)):
                plan = knapformer.plan(lengths=same, offsets=same_offsets, topology="g1n4")
                self.assertEqual(plan.hash, expected)

    def test_contiguous_int64_is_not_copied(self):
        lengths, _ = flat(LENGTHS)
        self.assertIs(integers("lengths", lengths), lengths)
        self.assertIsNot(integers("lengths", lengths[::2]), lengths)

    def test_rows_of_any_kind(self):
        expected = knapformer.plan([[3, 4], [5, 6]]).hash
        for rows in (np.array([[3, 4], [5, 6]]), ((3, 4), np.array([5, 6], np.uint8)), iter([[3, 4], range(5, 7)]),
                     np.array([[3, 5], [4, 6]]).T):
            self.assertEqual(knapformer.plan(rows).hash, expected)

    def test_costs(self):
        lengths, offsets = flat([[10, 10, 10, 10], [10]])
        rows = knapformer.plan([[10, 10, 10, 10], [10]], costs_by_rank=[[40, 1, 1, 1], [37]], topology="g1n2")
        array = knapformer.plan(lengths=lengths, offsets=offsets, costs=np.array([40, 1, 1, 1, 37]), topology="g1n2")
        for plan in (rows, array):
            self.assertEqual(plan.report.work_before.tolist(), [43, 37])
            self.assertEqual(plan.report.work_after.tolist(), [40, 40])

    def test_machine(self):
        machine = knapformer.Machine()
        self.assertEqual((machine.ranks_per_node, machine.layers, machine.bytes_per_element), (8, 57, 2))
        self.assertEqual((machine.flops, machine.bandwidth_within, machine.bandwidth_between), (400e12, 300e9, 45e9))
        self.assertEqual((machine.latency, machine.speeds), (5e-6, ()))
        with self.assertRaises(dataclasses.FrozenInstanceError):
            machine.layers = 3
        free = knapformer.Machine.without_communication()
        self.assertEqual(free, dataclasses.replace(machine, bandwidth_within=math.inf, bandwidth_between=math.inf,
                                                   latency=0))
        lengths = [[16000], [], [400], [400]]
        with_traffic = knapformer.plan(lengths, topology="g4n1")
        without = knapformer.plan(lengths, topology="g4n1", machine=free)
        self.assertEqual(without.hash, with_traffic.hash)
        self.assertLess(without.report.step_seconds, with_traffic.report.step_seconds)
        self.assertAlmostEqual(without.report.step_over_ideal, without.report.max_over_mean, delta=1e-12)

        doubled = knapformer.plan(lengths, machine=dataclasses.replace(free, speeds=np.array([2, 2, 2, 2])))
        half_as_deep = knapformer.plan(lengths, machine=dataclasses.replace(free, flops=800e12))
        np.testing.assert_allclose(doubled.report.seconds, half_as_deep.report.seconds, rtol=1e-12)

        nodes = knapformer.plan(lengths, topology="g4n1", machine=knapformer.Machine(ranks_per_node=2))
        self.assertGreater(nodes.report.crossed_tokens, 0)

    def test_other_threads_run_while_planning(self):
        lengths = np.full(200_000, 1000)
        offsets = np.arange(0, 200_001, 100)
        go, ran = threading.Event(), threading.Event()
        thread = threading.Thread(target=lambda: (go.wait(), ran.set()))
        thread.start()
        interval = sys.getswitchinterval()
        try:
            sys.setswitchinterval(1000)  # the other thread runs when this one lets it, or not at all
            go.set()
            attempts = 0
            while not ran.is_set() and attempts < 20:
                knapformer.plan(lengths=lengths, offsets=offsets, topology="g1n2000")
                attempts += 1
            released = ran.is_set()
        finally:
            sys.setswitchinterval(interval)
            thread.join()
        self.assertTrue(released)


class ReadmeTest(unittest.TestCase):
    def test_examples(self):
        source = pathlib.Path(os.environ["KNAPFORMER_PYTHON_SOURCE"])
        blocks = (source / "README.md").read_text().split("```python\n")[1:]
        self.assertGreaterEqual(len(blocks), 4)
        names = {}
        for block in blocks:
            exec(compile(block.split("```")[0], "README.md", "exec"), names)
