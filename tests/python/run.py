# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Installs the Python package into a fresh virtual environment and runs its tests there.

What the test needs from elsewhere may be missing: then this exits with status 77 and says what. From
there on everything that fails is a failure.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

SKIPPED = 77


def skip(why):
    print("SKIPPED:", why)
    sys.exit(SKIPPED)


def run(*command, **options):
    print("$", *command, flush=True)
    return subprocess.run([str(word) for word in command], text=True, **options)


def run_or_skip(what, *command):
    done = run(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        print(done.stdout)
        skip(f"{what}; see above")


def run_or_fail(*command, **options):
    done = run(*command, **options)
    if done.returncode != 0:
        sys.exit(f"failed with status {done.returncode}")


def make_environment(python, folder):
    """A virtual environment with what the package needs to be built and to run."""
    import tomllib

    with open(python / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)
    shutil.rmtree(folder, ignore_errors=True)
    run_or_skip("there is no virtual environment (Debian: python3-venv)", sys.executable, "-m", "venv", folder)
    interpreter = folder / "bin" / "python"
    run_or_skip("the packages that pyproject.toml names cannot be had", interpreter, "-m", "pip", "install", "-q",
                "--retries", "1", "--timeout", "15", "--disable-pip-version-check",
                *project["build-system"]["requires"], *project["project"]["dependencies"])
    return interpreter


def check_torch(options, interpreter, readme, script):
    """With the PyTorch of the Python that runs this; without one it says so."""
    found = run(sys.executable, "-c", "import torch; print(torch.__path__[0])", stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL)
    if found.returncode != 0 or not options.routed_rows:
        print("the recipe for PyTorch is not tested: there is no", "library" if found.returncode == 0 else "PyTorch")
        return
    packages = str(pathlib.Path(found.stdout.strip()).parent)
    run_or_fail(interpreter, script, readme, options.mpiexec, options.routed_rows,
                env={**os.environ, "PYTHONPATH": packages}, timeout=300)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=pathlib.Path, required=True, help="folder of the project")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder to make anew")
    parser.add_argument("--reference", required=True, help="the program test_python_reference")
    parser.add_argument("--routed-rows", help="the program test_python_routed_rows")
    parser.add_argument("--mpiexec", help="what starts it")
    options = parser.parse_args()
    if sys.version_info < (3, 11):
        skip(f"Python is {sys.version.split()[0]}; the test needs 3.11")
    header = pathlib.Path(sysconfig.get_path("include"), "Python.h")
    if not header.exists():
        skip(f"there is no {header} (Debian: python3-dev)")

    python = options.source / "src" / "python"
    os.environ.pop("PYTHONPATH", None)
    interpreter = make_environment(python, options.work / "venv")
    pip_install = [interpreter, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index",
                   "--disable-pip-version-check"]

    run_or_fail(*pip_install, python)
    tests = pathlib.Path(__file__).parent
    run_or_fail(interpreter, "-m", "unittest", "discover", "-v", "-s", tests, "-p", "*_test.py",
                env={**os.environ, "KNAPFORMER_REFERENCE": options.reference, "KNAPFORMER_PYTHON_SOURCE": str(python)})

    check_torch(options, interpreter, python / "README.md", tests / "check_torch.py")

    distributions = options.work / "sdist"
    shutil.rmtree(distributions, ignore_errors=True)
    run_or_fail(interpreter, "-c", "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])",
                distributions, cwd=python)
    [archive] = distributions.iterdir()
    run_or_fail(*pip_install, "--target", distributions / "installed", archive,
                env={**os.environ, "CXXFLAGS": "-O0"})
    run_or_fail(interpreter, "-c", "import knapformer; print(knapformer.__file__, knapformer.plan([[10], []]))",
                cwd=distributions / "installed")


if __name__ == "__main__":
    main()
