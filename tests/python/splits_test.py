# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The splits of all ranks, run through an all-to-all in NumPy."""

import random
import unittest

import knapformer
import numpy as np


def all_to_all(sent, send_counts, receive_counts):
    """What torch.distributed.all_to_all_single does, for all ranks at once."""
    parts = [np.split(rows, np.cumsum(counts)[:-1]) for rows, counts in zip(sent, send_counts)]
    received = []
    for rank, counts in enumerate(receive_counts):
        from_all = [parts[source][rank] for source in range(len(sent))]
        assert [len(part) for part in from_all] == list(counts), "the ranks disagree on who sends what"
        received.append(np.concatenate(from_all))
    return received


def routed_tokens(plan, rank):
    """(sequence, token) of the rows that `rank` computes, straight from the chunks."""
    rows = []
    for i in range(plan.sequences):
        for chunk in plan.chunks[plan.chunk_offsets[i]:plan.chunk_offsets[i + 1]].tolist():
            if chunk[0] == rank:
                rows += [(i, chunk[1] + t) for t in range(chunk[2])]
    return np.array(rows, dtype=np.int64).reshape(-1, 2)


class SplitsTest(unittest.TestCase):
    def check(self, lengths, **arguments):
        plan = knapformer.plan(lengths, heads=6, **arguments)
        home = [[(i, t) for i in np.flatnonzero(plan.homes == rank) for t in range(plan.lengths[i])]
                for rank in range(plan.ranks)]
        home = [np.array(rows, dtype=np.int64).reshape(-1, 2) for rows in home]
        splits = [plan.splits(rank) for rank in range(plan.ranks)]
        sends, receives = [s.send_counts for s in splits], [s.receive_counts for s in splits]
        routed = all_to_all([x[s.rows] for x, s in zip(home, splits)], sends, receives)
        for rank in range(plan.ranks):
            np.testing.assert_array_equal(routed[rank], routed_tokens(plan, rank))
        back = all_to_all(routed, receives, sends)
        for rank in range(plan.ranks):
            restored = np.full_like(home[rank], -1)
            restored[splits[rank].rows] = back[rank]
            np.testing.assert_array_equal(restored, home[rank])
        return plan

    def test_tokens_arrive_where_the_plan_says_and_return(self):
        seed = random.randrange(10**9)
        rng = random.Random(seed)
        for topology in ("g1n6", "g2n3", "g6n1", "g1n2+g4n1", "elastic"):
            for _ in range(10):
                lengths = [[rng.choice([0, 1, 7, 90]) for _ in range(rng.randint(0, 4))] for _ in range(6)]
                with self.subTest(seed=seed, topology=topology, lengths=lengths):
                    self.check(lengths, topology=topology)

    def test_one_long_sequence_goes_to_every_rank(self):
        plan = self.check([[], [600], [], [], [], []], topology="g6n1")
        splits = plan.splits(1)
        self.assertEqual(splits.send_counts, [100] * 6)
        self.assertEqual(splits.receive_counts, [0, 100, 0, 0, 0, 0])
        self.assertIs(type(splits.send_counts[0]), int)
        self.assertEqual(plan.splits(5).receive_counts, [0, 100, 0, 0, 0, 0])

    def test_rows_outlive_the_splits_and_may_be_written(self):
        plan = knapformer.plan([[5, 6], [7]], topology="g1n2")
        rows = plan.splits(0).rows
        self.assertEqual((rows.dtype, rows.shape), (np.int64, (11,)))
        rows += 1
        self.assertEqual(sorted(rows.tolist()), list(range(1, 12)))
        self.assertEqual(sorted(plan.splits(0).rows.tolist()), list(range(11)))

    def test_ranks_that_there_are_not(self):
        plan = knapformer.plan([[5], [7]])
        for rank in (-1, 2, 2**40):
            with self.assertRaisesRegex(knapformer.Error, f"rank is {rank}; expected 0 to 1"):
                plan.splits(rank)
        for rank in ("0", 0.5, None, 2**70):
            with self.assertRaises(TypeError):
                plan.splits(rank)
