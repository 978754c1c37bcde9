#!/usr/bin/env python3
# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Run a performance suite of perf/suites.json and write its figures as JSON, for perf/compare.py.

Every case runs as many rounds as asked for, in turn with the others, each round in processes of its own: the spread over the rounds is
the noise that compare.py reckons with.

  perf/run_suite.py --list
  perf/run_suite.py quick
  perf/run_suite.py cpu --ranks 8 --rounds 5 --launcher "mpirun -n {ranks}" --output cpu.json

In a Slurm job the launcher is srun and there is a rank for every task of the job; see perf/slurm.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SUITES = os.path.join(ROOT, "perf", "suites.json")
SCHEMA = "knapformer-perf-1"

# What a figure of `knapformer simulate` is, and which direction is better.
SIMULATED = {
    "step_seconds": (("balanced", "median_step_seconds"), "lower"),
    "tokens_per_second": (("balanced", "tokens_per_second"), "higher"),
    "hfu": (("balanced", "hfu"), "higher"),
    "speedup": (("speedup",), "higher"),
    "max_over_mean": (("balanced", "work_max_over_mean"), "lower"),
}
HIGHER = {"ratio_to_gemm", "ratio_to_bandwidth"}  # of the benchmarks' counters; of the others lower is better


class SuiteError(Exception):
    pass


def default_launcher():
    if "SLURM_JOB_ID" in os.environ:
        return "srun --mpi=pmix -n {ranks}"
    return "mpirun -n {ranks}"


def default_ranks():
    return int(os.environ.get("SLURM_NTASKS", 2))


def command_of(case, options, output):
    program = case["program"]
    if program == "simulate":
        command = [os.path.join(options.build, "knapformer"), "simulate", *case["arguments"], "--json", output]
    else:
        command = [os.path.join(options.build, "perf", program), f"--benchmark_filter={case['filter']}",
                   f"--benchmark_out={output}", "--benchmark_out_format=json", *case.get("arguments", [])]
    return [*shlex.split(options.launcher.format(ranks=case.get("ranks", options.ranks))), *command]


def plain_name(benchmark):
    """The name of a case without what only says how it was timed, and without the number of ranks."""
    name = re.sub(r"/(iterations|repeats|ranks):\d+", "", benchmark.get("run_name", benchmark["name"]))
    return name.replace("/manual_time", "")


def figures_of_benchmarks(document, metrics):
    """Medians where repetitions are summed up, the only figure there is elsewhere: {name: (value, better)}."""
    kinds = {"time": "real_time"}
    entries = document["benchmarks"]
    summed_up = {e["run_name"] for e in entries if e.get("aggregate_name") == "median"}
    for entry in entries:
        if entry.get("error_occurred"):
            raise SuiteError(f"{entry['name']}: {entry.get('error_message')}")
        if entry["run_name"] in summed_up and entry.get("aggregate_name") != "median":
            continue
        for metric in metrics:
            key = kinds.get(metric, metric)
            if key not in entry:
                continue  # e.g. `prepare` of bench_route has no ratio
            name = f"{metric}_{entry['time_unit']}" if metric == "time" else metric
            yield f"{plain_name(entry)} {name}", entry[key], "higher" if metric in HIGHER else "lower"


def figures_of_simulation(document):
    for name, (path, better) in SIMULATED.items():
        value = document
        for key in path:
            value = value[key]
        yield name, value, better


def check_ranks(case, document, asked):
    """A launcher and an MPI that do not fit each other start many programs of one rank each."""
    if case["program"] == "simulate":
        found = {document["ranks"]}
    else:
        found = {int(n) for entry in document["benchmarks"] for n in re.findall(r"/ranks:(\d+)", entry["name"])}
    if found - {asked}:
        raise SuiteError(f"{case['name']}: asked for {asked} ranks, and the program has seen {found.pop()}: the launcher "
                         "and MPI do not fit each other (with srun, try another --mpi=)")


def run_case(case, options):
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        output = os.path.join(folder, "out.json")
        command = command_of(case, options, output)
        one_thread = {"OMP_NUM_THREADS": "1", "OMP_PROC_BIND": "false", **os.environ}
        try:
            done = subprocess.run(command, cwd=ROOT, env=one_thread, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=options.timeout)
        except subprocess.TimeoutExpired:
            raise SuiteError(f"{case['name']}: not done after {options.timeout} s: {shlex.join(command)}")
        except OSError as error:
            raise SuiteError(f"{case['name']}: {error}: {shlex.join(command)}")
        if done.returncode != 0:
            raise SuiteError(f"{case['name']}: exit status {done.returncode}: {shlex.join(command)}\n{done.stdout}")
        try:
            with open(output) as file:
                document = json.load(file)
        except (OSError, ValueError) as error:
            raise SuiteError(f"{case['name']}: left no result ({error}): {shlex.join(command)}; --scratch must be a "
                             "folder that the nodes share")
    check_ranks(case, document, case.get("ranks", options.ranks))
    figures = figures_of_simulation(document) if case["program"] == "simulate" else \
        figures_of_benchmarks(document, case["metrics"])
    found = {f"{case['name']}: {name}": (value, better) for name, value, better in figures}
    if not found:
        raise SuiteError(f"{case['name']}: no figures; does the filter {case.get('filter')!r} match anything?")
    return found


def text_of(*command):
    try:
        return subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              check=True, timeout=60).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def context(name, options):
    info = text_of(os.path.join(options.build, "knapformer"), "info")
    if info is None:
        raise SuiteError(f"{options.build}/knapformer does not run: build it, with KNAPFORMER_ENABLE_PERF=ON, or say "
                         "where with --build")
    return {
        "suite": name,
        "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": text_of("git", "describe", "--always", "--dirty", "--abbrev=12"),
        "machine": {"node": platform.node(), "processor": processor(), "system": platform.platform()},
        "program": [line.rstrip() for line in info.splitlines()],
        "launcher": options.launcher,
        "ranks": options.ranks,
        "threads": os.environ.get("OMP_NUM_THREADS", "1"),
        "nodes": os.environ.get("SLURM_JOB_NODELIST"),
    }


def processor():
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def check_programs(suite, options):
    """All of them, before the first round: a later one may be an hour away."""
    for program in sorted({case["program"] for case in suite["cases"]} - {"simulate"}):
        path = os.path.join(options.build, "perf", program)
        if not os.access(path, os.X_OK):
            raise SuiteError(f"there is no program {path}: `make perf-programs` builds all, or say where they are with --build")


def run(name, suite, options):
    result = {"schema": SCHEMA, "context": context(name, options), "figures": {}}
    check_programs(suite, options)
    for number in range(options.rounds):
        for case in suite["cases"]:
            print(f"round {number + 1} of {options.rounds}: {case['name']}", file=sys.stderr, flush=True)
            for figure, (value, better) in run_case(case, options).items():
                entry = result["figures"].setdefault(figure, {"better": better, "values": []})
                entry["values"].append(value)
    return result


def parse(arguments, suites):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", nargs="?", choices=sorted(suites), help="which suite")
    parser.add_argument("--list", action="store_true", help="say what the suites are, and stop")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="folder with the programs")
    parser.add_argument("--ranks", type=int, default=default_ranks(), help="ranks of exchanges and training steps "
                        "(default: the tasks of the Slurm job, or 2)")
    parser.add_argument("--launcher", default=default_launcher(), help="starts {ranks} processes (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="times that each case runs (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=1800, metavar="SECONDS", help="of one case (default: %(default)s)")
    parser.add_argument("--scratch", metavar="FOLDER", help="for files of the programs, shared by the nodes (default: "
                        "beside the output, or the system's)")
    parser.add_argument("--output", metavar="FILE", help="where the JSON goes (default: standard output)")
    options = parser.parse_args(arguments)
    if options.suite is None and not options.list:
        parser.error("which suite? --list says what there is")
    if options.ranks < 1 or options.rounds < 1:
        parser.error("at least 1 rank and 1 round")
    if options.output:
        options.scratch = options.scratch or os.path.dirname(os.path.abspath(options.output))
    if options.scratch and not os.path.isdir(options.scratch):
        parser.error(f"there is no folder {options.scratch}")
    options.build = os.path.abspath(options.build)
    return options


def main():
    with open(SUITES) as file:
        suites = json.load(file)
    options = parse(None, suites)
    if options.list:
        for name, suite in suites.items():
            print(f"{name:8}{suite['about']}: {', '.join(case['name'] for case in suite['cases'])}")
        return 0
    try:
        result = run(options.suite, suites[options.suite], options)
    except SuiteError as error:
        print(f"run_suite.py: {error}", file=sys.stderr)
        return 1
    if options.output:
        with open(options.output, "w") as file:
            json.dump(result, file, indent=1)
        print(f"{len(result['figures'])} figures of {options.rounds} rounds in {options.output}", file=sys.stderr)
    else:
        json.dump(result, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
