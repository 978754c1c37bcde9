#!/usr/bin/env python3
# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the smoke tests of the Spack recipe, its methods test_*, on an installed KnapFormer."""

import argparse
import os
import pathlib
import shutil
import types

from recipe import Prefix, Spec, load

parser = argparse.ArgumentParser(description=__doc__)
for name in ("source", "prefix", "work", "cmake", "kokkos", "cc", "cxx", "mpicc", "mpicxx"):
    parser.add_argument("--" + name, required=True)
given = parser.parse_args()

shutil.rmtree(given.work, ignore_errors=True)
os.makedirs(given.work)
package = load(given.source)()
package.source = given.source
package.test_cache = os.path.join(given.work, "cache")
package.prefix = Prefix(given.prefix)
package.test_suite = types.SimpleNamespace(current_test_cache_dir=package.test_cache)
cmake = types.SimpleNamespace(prefix=types.SimpleNamespace(bin=types.SimpleNamespace(cmake=given.cmake)))
# The folder above lib/.../cmake/Kokkos.
kokkos = next(str(folder.parent) for folder in pathlib.Path(given.kokkos).parents if folder.name in ("lib", "lib64"))
package.spec = Spec([], cmake=cmake, kokkos=types.SimpleNamespace(prefix=Prefix(kokkos)),
                    c=types.SimpleNamespace(cc=given.cc), cxx=types.SimpleNamespace(cxx=given.cxx),
                    mpi=types.SimpleNamespace(mpicc=given.mpicc, mpicxx=given.mpicxx))

package.keep_smoke_test()
tests = [name for name in dir(package) if name.startswith("test_") and callable(getattr(package, name))]
assert tests, "the recipe has no smoke tests"
for name in tests:
    folder = os.path.join(given.work, name)
    os.makedirs(folder)
    os.chdir(folder)
    print(f"== {name}: {getattr(package, name).__doc__}", flush=True)
    getattr(package, name)()
