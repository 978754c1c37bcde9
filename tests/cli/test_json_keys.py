# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/json.md lists the keys that the program writes, and no others."""

import argparse
import itertools
import json
import re
import sys
import unittest

from program import ProgramTest, main

guide = ""  # the path of docs/json.md, set at the end


def paths(value, path=""):
    """The keys of everything that is no object, and no list of objects."""
    if isinstance(value, dict):
        return set().union(*(paths(item, f"{path}.{key}".lstrip(".")) for key, item in value.items()))
    objects = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    return set().union(*(paths(item, path + "[]") for item in objects)) if objects else {path}


def expanded(key):
    """{a,b}.c as a.c and b.c."""
    parts = [part.split(",") for part in re.split(r"[{}]", key)]
    return {"".join(choice) for choice in itertools.product(*parts)}


def documented():
    """The keys of each section."""
    with open(guide) as file:
        sections = re.split(r"^## ", file.read(), flags=re.M)[1:]
    keys = {}
    for section in sections:
        cells = re.findall(r"^\| (`.*?) \|", section, re.M)
        keys[section.splitlines()[0].strip("`")] = set().union(*map(expanded, re.findall("`(.*?)`", " ".join(cells))))
    machine = keys.pop("The machine")
    for section in keys.values():
        for key in [key for key in section if key.split(".")[-1] == "machine"]:
            section.remove(key)
            section |= {f"{key}.{field}" for field in machine}
    return keys


class Keys(ProgramTest):
    def written(self, *arguments, **options):
        done = self.start(*arguments, "--json", "-", **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return paths(json.loads(done.stdout))

    def check(self, command, *runs):
        keys = set().union(*runs)
        nothing = {key for key in keys if any(other.startswith((key + ".", key + "[]")) for other in keys)}  # null, []
        self.assertEqual(sorted(documented()[command]), sorted(keys - nothing))

    def test_plan(self):
        self.check("plan", self.written("plan", "--lengths", "-", stdin='{"lengths_by_rank": [[100, 200, 0], []]}'))

    def test_tune(self):
        data = ["tune", "--data-codes", "g1b1i256f1s0,g1b0i256f1s0", "--max-text-tokens", "0", "--steps", "1"]
        self.check("tune", self.written(*data, "--max-tokens-per-rank", "200"))

    def test_simulate(self):
        self.check("simulate", self.written("simulate", "--data-codes", "g1b1i256f1s0", "--patch", "160", "--steps", "1", "--gamma",
                                            "1", "--peak-gflops", "10", "--d-model", "32", "--layers", "1"))

    def test_experiment(self):
        self.check("experiment paper", self.written("experiment", "paper", "--workloads", "lowres", "--d-model", "24", "--heads", "4",
                                                    "--layers", "1", "--steps", "1", "--gamma", "1", "--peak-gflops", "10"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--guide", required=True)
    guide = main(parser).guide
    unittest.main(argv=sys.argv[:1])
