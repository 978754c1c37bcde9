# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`knapformer simulate` loses a rank: the job ends, and the trace can be read as far as it was written."""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from program import ProgramTest, main

RANKS = 4
# Notes its process under its rank, as Open MPI or MPICH count it, and becomes the program.
NOTE_AND_RUN = 'echo $$ > "$0/${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"; exec "$@"'


class LostRank(ProgramTest):
    trace_steps = ""  # set below

    def steps(self, trace):
        done = subprocess.run([self.trace_steps, trace], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return (int(done.stdout.split()[0]), done.stdout.split()[1]) if done.returncode == 0 else (0, done.stderr)

    def lose(self, rank, how, states):
        """Signals a rank in the middle of a run without end. Expects what it leaves to be readable; returns stderr."""
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "trace.h5")
            command = [self.mpiexec, "-n", str(RANKS), "sh", "-c", NOTE_AND_RUN, folder, self.program, "simulate",
                       "--data-codes", "g1b2i64f1s0,g1b1i128f1s0,g1b1i64f1s0,g1b1i64f1s0", "--topology", "elastic",
                       "--d-model", "32", "--heads", "4", "--layers", "1", "--gamma", "1", "--peak-gflops", "10",
                       "--steps", "1000000", "--timeout", "2", "--report-after", "1", "--trace", trace]
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as job:
                try:
                    begin = time.monotonic()
                    while self.steps(trace)[0] < 32 and time.monotonic() - begin < 60:
                        time.sleep(0.1)
                    before = self.steps(trace)[0]
                    self.assertGreaterEqual(before, 32, self.steps(trace))
                    with open(os.path.join(folder, str(rank))) as note:
                        os.kill(int(note.read()), how)
                    _, stderr = job.communicate(timeout=60)
                finally:
                    job.kill()
            after, found = self.steps(trace)
            self.assertGreaterEqual(after, before, found)
            self.assertIn(found, states)
            self.assertNotEqual(job.returncode, 0)
            return stderr

    def test_killed(self):
        for rank in (2, 0):  # rank 0 writes the trace
            with self.subTest(rank=rank):
                self.assertRegex(self.lose(rank, signal.SIGKILL, ["open"]), f"rank {rank}\\b|,{rank}\\]|KILLED")

    def test_stopped(self):
        # The error reaches a writer that lives. A stopped one is woken by the launcher before it is ended, and
        # may get as far as closing.
        for rank, states in ((2, ["closed"]), (0, ["open", "closed"])):
            with self.subTest(rank=rank):
                lines = re.findall(r"knapformer: (.*)", self.lose(rank, signal.SIGSTOP, states))
                self.assertEqual(len(lines), 2, "a report, and the end")
                for line in lines:
                    self.assertRegex(line, f"s without progress in .*; no answer from rank {rank}:")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trace-steps", required=True)
    LostRank.trace_steps = main(parser).trace_steps
    unittest.main(argv=sys.argv[:1])
