# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every link of a Markdown file within the checkout leads to a file, and to a heading there where it names one; so does
every path between backquotes that begins with a folder of the checkout."""

import pathlib
import re
import sys

FOLDERS = ("cmake", "docs", "include", "perf", "spack", "src", "tests")


def without_blocks(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)


def anchors_of(text):
    """As GitHub and GitLab make them."""
    headings = re.findall(r"^#+ (.*)$", without_blocks(text), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken(root, file):
    text = without_blocks(file.read_text())
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = file.parent / path if path else file
        if not target.exists() or (anchor and anchor not in anchors_of(target.read_text())):
            yield link
    for path in re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./*-]*)`", text):
        if "LAYER" not in path and not any(root.glob(path.rstrip("/"))):
            yield path


def main(root):
    files = [*root.glob("*.md"), *(file for folder in FOLDERS for file in sorted((root / folder).rglob("*.md")))]
    found = [f"{file.relative_to(root)}: {link}" for file in files for link in broken(root, file)]
    print("\n".join(found))
    print(f"{len(files)} files, {len(found)} broken links")
    return 1 if found or len(files) < 10 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
