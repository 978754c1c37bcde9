# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One rank fails, dies or stalls in a step of a real job: the others say so, alike, and all ends.

Every start is given up after a minute, and the library's own time-out is ten: what hangs fails.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import time
import unittest

from program import ProgramTest, main

RANKS = 4
CULPRIT = 2
TIMEOUT = 1

# What all ranks say of a fault that they can tell each other of.
TOLD = {
    "throw": "rank 2: the loader has no data",
    "memory": "rank 2: out of memory",
    "lengths": "rank 2: the length of sequence 1 is -5; lengths are not negative",
    "heads": "balancer: the options differ between ranks, first in the heads of rank 2, not that of ranks 0, 1 and 3",
    "topology": "balancer: the options differ between ranks, first in the topology of rank 2, not that of ranks 0, 1 and 3",
    "plan": "rank 2 is out of step with the others",
    "width": "rank 2 is out of step with the others",
    "dtype": "rank 2 is out of step with the others",
    "forget": "rank 2 is out of step with the others",
}
SILENT = ("kill", "exit", "sleep", "stop")


def complaints(stderr):
    return re.findall(r"knapformer: .*", stderr)


class Failures(ProgramTest):
    def fault(self, name, group_size, *flags, **options):
        command = [self.mpiexec, *flags, "-n", str(RANKS), self.program, name, str(CULPRIT), str(group_size), str(TIMEOUT)]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, **options)

    def expect_no_answer(self, lines, count):
        self.assertEqual(len(lines), count, lines)
        self.assertEqual(len(set(lines)), 1, lines)
        self.assertRegex(lines[0], f"no answer from rank {CULPRIT}:")

    def test_ranks_that_disagree_or_throw(self):
        for name, message in TOLD.items():
            with self.subTest(fault=name):
                done = self.fault(name, RANKS)
                self.assertEqual(done.returncode, 2, done.stderr)
                lines = complaints(done.stderr)
                self.assertEqual(len(lines), 1, done.stderr)
                self.assertIn(message, lines[0])

    def test_they_are_named_by_their_rank_in_the_world(self):
        for name in ("throw", "lengths"):
            with self.subTest(fault=name):
                lines = complaints(self.fault(name, 2).stderr)
                self.assertEqual(lines, ["knapformer: " + TOLD[name]])

    def test_everything_ends_when_a_rank_is_lost(self):
        for name in SILENT:
            with self.subTest(fault=name):
                done = self.fault(name, 2)
                self.assertNotEqual(done.returncode, 0, done.stderr)
                lines = complaints(done.stderr)
                if name in ("kill", "exit"):  # the launcher sees it, and ends the others before they notice
                    self.assertRegex(done.stderr, f"rank {CULPRIT}\\b|,{CULPRIT}\\]")
                    self.assertLessEqual(len(lines), 1, done.stderr)
                else:
                    self.expect_no_answer(lines, 1)

    def test_survivors_name_the_rank_that_is_lost(self):
        for name, group_size, lines in (("kill", 1, 3), ("kill", 2, 3), ("kill", 4, 3), ("exit", 2, 3), ("sleep", 2, 4)):
            with self.subTest(fault=name, group_size=group_size):
                done = self.fault(name, group_size, *self.recovery())
                self.expect_no_answer(complaints(done.stderr), lines)

    def test_a_rank_that_is_lost_before_anything_begins(self):
        lines = complaints(self.fault("kill-early", 2, *self.recovery()).stderr)
        self.assertEqual(len(lines), RANKS - 1)
        for line in lines:
            self.assertIn("without progress in MPI_Comm_idup: some rank has ended", line)

    def test_a_rank_that_comes_back_ends_alike(self):
        command = [self.mpiexec, *self.recovery(), "-n", str(RANKS), self.program, "stop", str(CULPRIT), "2", str(TIMEOUT)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
            stopped = int(job.stdout.readline().split()[0])
            try:
                time.sleep(TIMEOUT + 6)  # by then the others have given up
                os.kill(stopped, signal.SIGCONT)
                _, stderr = job.communicate(timeout=60)
            finally:
                job.kill()
        self.expect_no_answer(complaints(stderr), RANKS)

    def recovery(self):
        """Flags with which the launcher lets the others live when a process dies."""
        version = subprocess.run([self.mpiexec, "--version"], stdout=subprocess.PIPE, text=True).stdout
        if re.search(r"\(Open MPI\) [34]\.", version):
            return ["--enable-recovery"]
        self.skipTest("this launcher ends all processes when one dies")


if __name__ == "__main__":
    main(argparse.ArgumentParser())
    unittest.main(argv=sys.argv[:1])
