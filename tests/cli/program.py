# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Running the program under test, alone or with several processes."""

import subprocess
import unittest


class ProgramTest(unittest.TestCase):
    program = ""  # set by main()
    mpiexec = ""

    def start(self, *arguments, ranks=None, stdin="", **options):
        """Runs to the end, and never for longer than a minute."""
        command = [self.program, *map(str, arguments)]
        if ranks:
            command = [self.mpiexec, "-n", str(ranks), *command]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.run(command, input=stdin, text=True, timeout=60, **options)

    def complaint(self, *arguments, **options):
        """The one line about bad input; status 2, and nothing else from the program."""
        done = self.start(*arguments, **options)
        self.assertEqual(done.returncode, 2, (arguments, done.stderr))
        self.assertFalse(done.stdout, arguments)
        lines = done.stderr.splitlines()
        if options.get("ranks"):  # mpirun adds its own remarks
            lines = [line for line in lines if "knapformer:" in line]
        self.assertEqual(len(lines), 1, (arguments, done.stderr))
        self.assertTrue(lines[0].startswith("knapformer: "), lines)
        return lines[0]


def main(parser):
    parser.add_argument("--program", required=True)
    parser.add_argument("--mpiexec", default="")
    options = parser.parse_args()
    ProgramTest.program, ProgramTest.mpiexec = options.program, options.mpiexec
    return options
