# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The suites of perf/suites.json as ReFrame checks, for sites that watch their machines with it.

  reframe -c perf/reframe/knapformer.py -C SITE.py -r --performance-report -n KnapFormerQuick

Needs a built checkout on a file system that the nodes share. The figures of a check are the medians over the rounds; what they should be
is a site's business: set `reference` in a class derived from Suite, or compare the JSON in the stage folder with perf/compare.py.
"""

import json
import os
import re
import shlex
import statistics

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.backends import getlauncher

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RESULT = "result.json"


class Suite(rfm.RunOnlyRegressionTest):
    build = variable(str, value=os.path.join(ROOT, "build"))
    rounds = variable(int, value=5)
    launcher = variable(str, value="")  # starts {ranks} processes; empty: srun in a Slurm job, mpirun elsewhere
    suite = variable(str)
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    sourcesdir = None
    num_tasks = 2
    executable = "python3"
    time_limit = "1h30m"

    @run_after("init")
    def describe(self):
        self.descr = f"KnapFormer's performance suite {self.suite}"
        self.tags = {self.suite, "performance"}

    @run_before("run")
    def start_inside_the_job(self):
        """run_suite.py starts the ranks itself: ReFrame starts it once, where the job is."""
        self.executable_opts = [os.path.join(ROOT, "perf", "run_suite.py"), self.suite, "--build", self.build, "--ranks",
                                str(self.num_tasks), "--rounds", str(self.rounds), "--output", RESULT]
        if self.launcher:
            self.executable_opts += ["--launcher", shlex.quote(self.launcher)]
        self.job.launcher = getlauncher("local")()

    @sanity_function
    def every_figure_is_there(self):
        return sn.assert_found(r"figures of \d+ rounds", self.stderr)

    @run_before("performance")
    def read_figures(self):
        with open(os.path.join(self.stagedir, RESULT)) as file:
            figures = json.load(file)["figures"]
        self.perf_variables = {}
        for name, figure in figures.items():
            unit = re.search(r"time_(\w+)$", name)
            # ReFrame takes colons for the end of the system's name.
            self.perf_variables[name.replace(": ", "/").replace(":", "=")] = sn.make_performance_function(
                sn.defer(statistics.median(figure["values"])), unit[1] if unit else "1")


@rfm.simple_test
class KnapFormerQuick(Suite):
    suite = "quick"
    rounds = 1


@rfm.simple_test
class KnapFormerCpu(Suite):
    suite = "cpu"


@rfm.simple_test
class KnapFormerGpu(Suite):
    suite = "gpu"
    valid_systems = ["+gpu"]
