# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each block of C, C++ or Fortran in the user guide is part of a program that is tested, and so is each of C or
Fortran in the README: the lines are the same, blanks at their ends aside."""

import pathlib
import re
import sys

GUIDES = {"docs/user-guide.md": ("c", "cpp", "fortran"), "README.md": ("c", "fortran")}
PROGRAMS = ("docs/examples/*.c", "docs/examples/*.cpp", "docs/examples/*.f90", "tests/install/*/main.c")


def lines_of(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def contains(program, block):
    return any(program[i:i + len(block)] == block for i in range(len(program) - len(block) + 1))


def main(root):
    programs = [lines_of(path.read_text()) for pattern in PROGRAMS for path in sorted(root.glob(pattern))]
    blocks = 0
    strangers = []
    for guide, languages in GUIDES.items():
        for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", (root / guide).read_text(), re.S | re.M):
            if language not in languages:
                continue
            blocks += 1
            if not any(contains(program, lines_of(block)) for program in programs):
                strangers.append(f"{guide}: no program has\n{block}")
    print("\n".join(strangers))
    print(f"{blocks} blocks, {len(strangers)} of them in no program")
    return 1 if strangers or blocks < 12 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
