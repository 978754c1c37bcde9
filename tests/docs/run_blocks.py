# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the shell and Python code of the README and the guides, block by block, as a reader would.

All run in one folder that holds the build as `build`, `perf`, and the programs of the guides under the names that they
have there; `DIR` is an installation. What builds, submits jobs or runs tests only says what it would do, see
stand_ins/, and long benchmarks list their cases. A block without a language is what the shell block before it prints,
or lines of that.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

# How a block begins that is not run here, and what runs it instead, or why nothing does.
ELSEWHERE = {
    "cmake -B build -DKokkos_ROOT=/path/to/kokkos": "`make check` gives these commands, with a Kokkos that CMake finds",
    "cmake -B build -DKNAPFORMER_ENABLE_NCCL=ON": "needs a Kokkos with CUDA",
    "spack ": "needs Spack",
    "reframe ": "needs ReFrame",
    "make perf SUITE=cpu RANKS=2 OUTPUT=before.json": "takes long; tests/perf/test_suites.py runs and compares suites",
    "perf/plan_quality.py": "takes minutes; tests/perf/test_plan_quality.py runs it on fewer seeds",
}
PROGRAMS = {
    "planner.cpp": "tests/install/planner/main.cpp", "code.cpp": "tests/install/runtime/main.cpp",
    "code.c": "docs/examples/balance.c", "code.f90": "docs/examples/balance.f90",
}


def blocks_of(text):
    """Each block's language, its code, and what it should print, or None."""
    return re.findall(r"^```(sh|python)\n(.*?)^```\n(?:\n^```\n(.*?)^```\n)?", text, re.S | re.M)


def missing_line(printed, expected):
    """The first line of `expected` that is not printed behind the one before, without times measured here."""
    def lines(text):
        return iter(re.sub(r" +[\d.]+ [mun]s$", "", text, flags=re.M).splitlines())

    rest = lines(printed)
    return next((line for line in lines(expected) if line not in rest), None)


def prepare(given):
    """Fills the folder, and returns the environment."""
    shutil.rmtree(given.work, ignore_errors=True)
    tools = given.work / "tools"
    tools.mkdir(parents=True)
    (given.work / "build").symlink_to(given.build)
    (given.work / "perf").symlink_to(given.source / "perf")
    for name, source in PROGRAMS.items():
        shutil.copy(given.source / source, given.work / name)
    for name, path in given.tool:
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec "{path}" "$@"\n')
        tool.chmod(0o755)
    for stand_in in (given.source / "tests/docs/stand_ins").iterdir():
        shutil.copy(stand_in, tools)
    tests = given.work / "tests"
    tests.mkdir()
    (tests / "CTestTestfile.cmake").write_text(f'subdirs("{given.build}")\n')
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "LD_LIBRARY_PATH": str(given.prefix / given.libdir),
            "GUIDES_SOURCE": str(given.source), "GUIDES_TESTS": str(tests), "GUIDES_CMAKE": given.cmake,
            "GUIDES_CTEST": given.ctest, "GUIDES_MAKE": given.make or ""}


def run(language, code, given, environment):
    shell = ["python3", "-c"] if language == "python" else ["bash", "-e", "-o", "pipefail", "-c"]
    code = re.sub(r"(bench_(?:kernels|block) --benchmark_filter=.*)", r"\1 --benchmark_list_tests | grep /", code)
    code = code.replace("DIR/lib", str(given.prefix / given.libdir)).replace("DIR", str(given.prefix))
    done = subprocess.run([*shell, code], cwd=given.work, env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=240)
    print(code, done.stdout, sep="", flush=True)
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("source", "build", "prefix", "work"):
        parser.add_argument("--" + name, type=pathlib.Path, required=True)
    parser.add_argument("--libdir", required=True, help="where in the prefix the libraries are")
    parser.add_argument("--tool", action="append", nargs=2, default=[], metavar=("NAME", "PROGRAM"), help="a command")
    parser.add_argument("--without", action="append", default=[], metavar="WORD", help="leave out blocks that have it")
    for name in ("cmake", "ctest", "make"):
        parser.add_argument("--" + name, default=shutil.which(name), help="the real program")
    given = parser.parse_args()
    environment = prepare(given)
    failures = []
    count = 0
    for guide in [given.source / "README.md", *sorted((given.source / "docs").glob("*.md")),
                  given.source / "perf/README.md"]:
        for language, code, expected in blocks_of(guide.read_text()):
            where = f"{guide.relative_to(given.source)}: {code.splitlines()[0]}"
            elsewhere = [why for beginning, why in ELSEWHERE.items() if code.startswith(beginning)]
            elsewhere += [f"there is no {word}" for word in given.without if word in code]
            print("==", where, *(f"({why})" for why in elsewhere), flush=True)
            if elsewhere:
                continue
            count += 1
            done = run(language, code, given, environment)
            missing = missing_line(done.stdout, expected) if expected else None
            if done.returncode != 0:
                failures.append(f"{where}: status {done.returncode}")
            elif missing is not None:
                failures.append(f"{where}: does not print\n{missing}")
    print("\n".join([f"{count} blocks run, {len(failures)} failed", *failures]))
    return 1 if failures or count < 3 else 0


if __name__ == "__main__":
    sys.exit(main())
