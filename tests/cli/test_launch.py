# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several processes end together: one line, one status, and no hang."""

import argparse
import sys
import unittest

from program import ProgramTest, main


class Launch(ProgramTest):
    def test_success(self):
        for ranks in (None, 1, 4):
            done = self.start(ranks=ranks)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_one_process_needs_no_mpi(self):
        self.assertEqual(self.start("alone").returncode, 0)

    def test_all_fail_alike(self):
        for ranks in (None, 1, 4):
            self.assertEqual(self.complaint("all", ranks=ranks), "knapformer: all fail alike")
            self.assertEqual(self.complaint("memory", ranks=ranks), "knapformer: out of memory")

    def test_one_fails_and_the_others_have_finished(self):
        self.assertEqual(self.complaint("one", ranks=4), "knapformer: rank 2 fails")

    def test_one_fails_and_the_others_wait_for_it(self):
        self.assertEqual(self.complaint("stuck", ranks=4), "knapformer: rank 2 fails")


if __name__ == "__main__":
    main(argparse.ArgumentParser())
    unittest.main(argv=sys.argv[:1])
