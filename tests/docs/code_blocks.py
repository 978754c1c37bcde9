# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every block of code in the README and the guides is run by some test.

Blocks of C, C++ and Fortran are part of programs that are tested: each of their paragraphs has the same lines, blanks at
their ends aside. Other languages are run elsewhere.
"""

import collections
import pathlib
import re
import sys

PROGRAMS = ("docs/examples/*.c", "docs/examples/*.cpp", "docs/examples/*.f90", "tests/install/*/main.c")
# What runs the blocks of a language, and how many of them in which guide; None: all.
ELSEWHERE = {
    "sh": ("tests/docs/run_blocks.py", None),
    "": ("tests/docs/run_blocks.py, as what the commands before print", {"README.md": 1}),
    "cmake": ("tests/install/run.cmake", {"README.md": 1, "docs/user-guide.md": 2}),
    "python": ("tests/docs/run_blocks.py", None),
    "yaml": ("nothing but Spack", {"docs/install.md": 1}),
}


def lines_of(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def contains(program, paragraph):
    return any(program[i:i + len(paragraph)] == paragraph for i in range(len(program) - len(paragraph) + 1))


def main(root):
    programs = [lines_of(path.read_text()) for pattern in PROGRAMS for path in sorted(root.glob(pattern))]
    others = collections.Counter()
    blocks = 0
    complaints = []
    for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        guide = str(path.relative_to(root))
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(), re.S | re.M):
            blocks += 1
            paragraphs = [lines_of(paragraph) for paragraph in block.split("\n\n")]
            if language in ELSEWHERE:
                others[language, guide] += 1
            elif not any(all(contains(program, paragraph) for paragraph in paragraphs) for program in programs):
                complaints.append(f"{guide}: no program has\n{block}")
    for (language, guide), count in others.items():
        where, known = ELSEWHERE[language]
        if known is not None and known.get(guide, 0) != count:
            complaints.append(f"{guide}: {count} blocks of '{language}', not as many as are run by {where}")
    print("\n".join(complaints))
    print(f"{blocks} blocks, {len(complaints)} complaints")
    return 1 if complaints or blocks < 12 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
