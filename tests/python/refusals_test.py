# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What cannot be planned is refused, by name, and never crashes."""

import unittest

import knapformer
import numpy as np

NAN = float("nan")
Machine = knapformer.Machine


class RefusalsTest(unittest.TestCase):
    def refuses(self, kind, message, *args, **kwargs):
        with self.subTest(message, args=args, kwargs=kwargs):
            with self.assertRaisesRegex(kind, message) as caught:
                knapformer.plan(*args, **kwargs)
            self.assertIs(type(caught.exception), kind)

    def test_numbers_out_of_range(self):
        for message, lengths in {
            "length of sequence 2 is -3": [[1, 2], [-3]],
            "length of sequence 0 is -9223372036854775808": [[-(2**63)]],
            "length of sequence 1 is 1099511627777": [[1, 2**40 + 1]],
            r"lengths_by_rank\[1\] has the element 9223372036854775808": [[], [2**63]],
            r"lengths_by_rank\[0\]\[1\] is 1000000000000000000000": [[1, 10**21]],
            "more work in all": np.full((2, 2**21), 2**40),
            "lengths for 0 ranks; give those of at least one rank": [],
        }.items():
            self.refuses(knapformer.Error, message, lengths)
        rows = [[100], [200]]
        for message, arguments in {
            "number of heads is 0": {"heads": 0},
            "heads is 1180591620717411303424; expected a number of 64 bits": {"heads": 2**70},
            "d_model is 0": {"d_model": 0},
            "gamma is -?nan": {"gamma": NAN},
            "gamma is inf": {"gamma": float("inf")},
            "gamma is -1": {"gamma": -1},
            "gamma is 1000.*a float can hold": {"gamma": 10**400},
            "constant is -1": {"constant": -1},
            "topology g1n3 is for 3 ranks": {"topology": "g1n3"},
            "cannot use the term": {"topology": "g1n1 + é\0"},
            "max_tokens_per_rank is -1; expected 0 or more, or None": {"max_tokens_per_rank": -1},
            "max_attention_tokens_per_rank is -5": {"max_attention_tokens_per_rank": -5},
            "budget is -1": {"budget": -1},
            "1 speed for 2 ranks": {"machine": Machine(speeds=[1])},
            "speed of rank 1 is -?nan": {"machine": Machine(speeds=[1, NAN])},
            "machine.layers is 1180591620717411303424": {"machine": Machine(layers=2**70)},
            "bandwidth between nodes is 0": {"machine": Machine(bandwidth_between=0)},
            "rank 0 has 2 costs for 1 length;": {"costs_by_rank": [[1, 2], []]},
            "costs of 1 rank, but lengths of 2": {"costs_by_rank": [[1]]},
            "cost of sequence 1 is -1": {"costs_by_rank": [[1], [-1]]},
            "^1 cost for 2 lengths": {"costs": [1]},
            "0 costs for 2 lengths": {"costs": []},
        }.items():
            self.refuses(knapformer.Error, message, rows, **arguments)

    def test_offsets_that_do_not_fit(self):
        for offsets in ([0, 3, 2], [1, 1, 2], [0, 1, 1], [0, 1], [0, -1, 2], [0, 2**62, 2]):
            self.refuses(knapformer.Error, "must rise from 0 to the number of lengths, 2", lengths=[5, 6],
                         offsets=offsets)
        for offsets in ([], [0]):
            self.refuses(knapformer.Error, "give those of at least one rank", lengths=[], offsets=offsets)

    def test_wrong_types(self):
        strings = np.array(["1", "2"])
        for message, lengths in {
            "float64; expected integers": [[1.0], [2]],
            "bool; expected integers": np.array([[True]]),
            "datetime64": [np.array([1, 2], "datetime64[s]")],
            "U1; expected integers": strings[None],
            r"lengths_by_rank\[1\] has elements of type float64": [[1], np.empty(0)],
            r"lengths_by_rank\[0\]\[0\] is None": [[None]],
            r"lengths_by_rank\[0\] has 0 dimensions": [1, 2, 3],
            r"lengths_by_rank\[0\] has 2 dimensions": [[[1, 2]], [[3, 4]]],
            r"lengths_by_rank\[0\].*expected": [[[1, 2], [3]]],  # in the words of NumPy or of this package
            "lengths_by_rank is str": "1234",
            "lengths_by_rank is int": 7,
        }.items():
            self.refuses(TypeError, message, lengths)
        for message, arguments in {
            "topology is 4": {"topology": 4},
            "heads is 2.5; expected a whole number": {"heads": 2.5},
            "d_model is None": {"d_model": None},
            "gamma is '0.5'": {"gamma": "0.5"},
            r"gamma is \[\]": {"gamma": []},
            "budget is 'none'": {"budget": "none"},
            "machine is None": {"machine": None},
            "machine.flops is None": {"machine": Machine(flops=None)},
            "machine.layers is 1.5": {"machine": Machine(layers=1.5)},
            "costs has elements of type float64": {"costs": [0.5]},
            "either costs_by_rank or costs": {"costs": [1], "costs_by_rank": [[1]]},
            "either lengths_by_rank, or lengths and offsets": {"lengths": [1], "offsets": [0, 1]},
        }.items():
            self.refuses(TypeError, message, [[1]], **arguments)
        self.refuses(TypeError, "either lengths_by_rank, or lengths and offsets", lengths=[1])
        self.refuses(TypeError, "either lengths_by_rank, or lengths and offsets")
        self.refuses(TypeError, "lengths has elements of type float32", lengths=np.ones(2, np.float32), offsets=[0, 2])
        self.refuses(TypeError, "lengths has 2 dimensions", lengths=np.ones((2, 2), np.int64), offsets=[0, 4])
        for speeds in ("12", 3, ["fast"]):
            with self.assertRaisesRegex(TypeError, "machine.speeds"):
                Machine(speeds=speeds)
