# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads the Spack recipe without Spack: in place of Spack's modules stand small ones that note what is declared."""

import contextlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import types

RECIPE = pathlib.PurePath("spack", "spack_repo", "knapformer", "packages", "knapformer", "package.py")


class Declarations:
    """What a recipe declares. A condition is the words of all `when` around it."""

    def __init__(self):
        self.variants = {}  # name -> default
        self.dependencies = []  # (spec, condition, types)
        self.conflicts = []  # (spec, condition, message)
        self.conditions = []

    def condition(self, when=""):
        return " ".join([*self.conditions, when]).strip()

    def dependency(self, name, condition=""):
        """The words said on the package `name` where `condition` holds and in general."""
        found = [spec for spec, when, _ in self.dependencies
                 if re.match(name + r"\b(?!-)", spec) and when in ("", condition)]
        return " ".join(found)

    def directives(self):
        def variant(name, default=False, **_):
            self.variants[name] = default

        def depends_on(spec, when="", type=("build", "link")):
            self.dependencies.append((spec, self.condition(when), type))

        def conflicts(spec, when="", msg=None):
            self.conflicts.append((spec, self.condition(when), msg))

        @contextlib.contextmanager
        def when(spec):
            self.conditions.append(spec)
            yield
            self.conditions.pop()

        ignore = lambda *_, **__: None
        return {"variant": variant, "depends_on": depends_on, "conflicts": conflicts, "when": when,
                "requires": ignore, "version": ignore, "license": ignore,
                "run_after": lambda _: lambda function: function, "join_path": os.path.join, "which": which,
                "cache_extra_test_sources": cache_extra_test_sources}


def which(program, required=False):
    """A function that runs the program."""
    assert pathlib.Path(program).exists() or not required, program
    return lambda *arguments: subprocess.run([str(program), *map(str, arguments)], check=True)


def cache_extra_test_sources(package, folders):
    for folder in folders:
        shutil.copytree(pathlib.Path(package.source, folder), pathlib.Path(package.test_cache, folder))


class Prefix(str):
    """A path: `prefix.bin.program` is prefix/bin/program."""

    def __getattr__(self, name):
        return Prefix(os.path.join(self, name))


class Spec(dict):
    """The variants of a package that are on, and its dependencies as items."""

    def __init__(self, on, **dependencies):
        super().__init__(dependencies)
        self.on = set(on)

    def satisfies(self, words):
        """`words`: +variant and ~variant."""
        return all((name in self.on) == (sign == "+") for sign, name in re.findall(r"([+~])(\w+)", words))


class CMakePackage:
    @staticmethod
    def define(name, value):
        return f"-D{name}={'ON' if value is True else 'OFF' if value is False else value}"

    def define_from_variant(self, name, variant):
        assert variant in self.declared.variants, f"there is no variant {variant}"
        return self.define(name, variant in self.spec.on)

    def __getitem__(self, name):
        return self.spec[name]


def load(source):
    """The recipe's class, with its Declarations as `declared`."""
    declared = Declarations()
    directives = declared.directives()
    for name in ("cuda", "rocm"):
        directives["variant"](name)

    def module(name, **content):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(content)

    for package in ("spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems", "spack"):
        module(package)
    systems = "spack_repo.builtin.build_systems."
    module(systems + "cmake", CMakePackage=CMakePackage)
    module(systems + "cuda", CudaPackage=type("CudaPackage", (), {"cuda_arch_values": ("80", "90")}))
    module(systems + "rocm", ROCmPackage=type("ROCmPackage", (), {"amdgpu_targets": ("gfx90a",)}))
    module("spack.package", **directives)

    specification = importlib.util.spec_from_file_location("knapformer_recipe", pathlib.Path(source, RECIPE))
    recipe = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(recipe)
    recipe.Knapformer.declared = declared
    return recipe.Knapformer
