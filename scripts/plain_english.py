#!/usr/bin/env python3
"""Measures how plain the English of comments in Rust sources is, and fails if a limit is exceeded.

    scripts/plain_english.py [--limits RIDDLES,REPORTED,VAGUE] [--files N] [--list] DIR...

Three counts, each per 1,000 comment lines:

riddles   paragraphs of a comment that open with a word such as "What" or "Whether" and are no question.
          A doc comment opens with the thing itself or with a verb: "Returns …", "The maximum …".
reported  "told", "tells", "said": name the data flow (receives, reports, contains).
vague     "nobody", "whoever", "somebody", "anybody", "whatever": name the role (caller, reader, task).

Code in comments (`…` and fenced blocks) is not counted. Folders and files of tests and benchmarks, build
output and hidden folders are skipped. A line of a multi-line string that begins with // counts as a comment.

Exit status: 0 if no rate is above its limit, 1 if one is, 2 if the arguments are wrong. Needs Python 3 only.
"""

import argparse
import os
import re
import signal
import sys
from collections import Counter

KINDS = ("riddles", "reported", "vague")
DEFAULT_LIMITS = "20,3,2"
SKIPPED_FOLDERS = {"bench", "benches", "target", "test", "tests"}
SKIPPED_FILES = {"tests.rs"}

COMMENT = re.compile(r"^\s*//(?P<kind>[/!]?)(?!/)(?P<text>.*)$")
HEADING = re.compile(r"^#{1,6} ")
LIST_ITEM = re.compile(r"^(?:[-*+]|\d+[.)]) +")
INLINE_CODE = re.compile(r"`[^`]*`")
FIRST_SENTENCE = re.compile(r"^.*?[.?!:](?=\s|$)", re.DOTALL)
OPENING = re.compile(r"^(?:What|Who|Whoever|Whether|So|Of|As|That|Those|How|Where)\b")
WORDS = {
    "reported": re.compile(r"\b(?:told|tells|said)\b", re.IGNORECASE),
    "vague": re.compile(r"\b(?:nobody|whoever|somebody|anybody|whatever)\b", re.IGNORECASE),
}


def rust_files(root):
    """Yields the source files below a folder, sorted; a file stands for itself."""
    if os.path.isfile(root):
        yield root
        return
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith(".")
        )
        for name in sorted(names):
            if name.endswith(".rs") and name not in SKIPPED_FILES:
                yield os.path.join(folder, name)


def paragraphs(lines):
    """Yields the paragraphs of the comments of a file, each as a list of (line number, text).

    A paragraph ends at a line without a comment, at an empty comment line, at a heading, at a list item
    and where the kind of the comment (`//`, `///`, `//!`) changes. Fenced blocks are left out.
    """
    current, kind, fenced = [], None, False
    for number, line in enumerate(lines, 1):
        comment = COMMENT.match(line)
        text = comment["text"].strip() if comment else ""
        if comment is None or comment["kind"] != kind:
            fenced = False
        is_fence = text.startswith("```")
        is_heading = bool(HEADING.match(text)) and not fenced
        item = None if fenced else LIST_ITEM.match(text)
        ends_paragraph = (
            comment is None or comment["kind"] != kind or not text or is_fence or is_heading or item
        )
        if ends_paragraph and current:
            yield current
            current = []
        kind = comment["kind"] if comment else None
        if is_fence:
            fenced = not fenced
        elif is_heading:
            yield [(number, text)]
        elif text and not fenced:
            current.append((number, text[item.end() :] if item else text))
    if current:
        yield current


def is_question(text):
    sentence = FIRST_SENTENCE.match(text)
    return (sentence[0] if sentence else text).endswith("?")


def measure(path):
    """Returns the counts of a file and its findings as (line number, kind, text)."""
    counts, findings = Counter(), []
    with open(path, encoding="utf-8", errors="replace") as source:
        for paragraph in paragraphs(source):
            counts["lines"] += len(paragraph)
            text = " ".join(line for _, line in paragraph)
            if OPENING.match(text) and not is_question(text):
                counts["riddles"] += 1
                findings.append((paragraph[0][0], "riddles", paragraph[0][1]))
            # Inline code may span two lines of a paragraph, so it is removed from the whole.
            prose = INLINE_CODE.sub("", text)
            for kind, pattern in WORDS.items():
                counts[kind] += len(pattern.findall(prose))
            for number, line in paragraph:
                for kind, pattern in WORDS.items():
                    if pattern.search(INLINE_CODE.sub("", line)):
                        findings.append((number, kind, line))
    return counts, findings


def parse_limits(text):
    try:
        limits = [float(part) for part in text.split(",")]
    except ValueError:
        limits = []
    if len(limits) != len(KINDS) or any(limit < 0 for limit in limits):
        raise argparse.ArgumentTypeError(f"expected three numbers such as {DEFAULT_LIMITS}, got {text!r}")
    return dict(zip(KINDS, limits))


def arguments():
    parser = argparse.ArgumentParser(
        description="Measures how plain the English of comments in Rust sources is.",
        epilog="Exits with 1 if a rate is above its limit.",
    )
    parser.add_argument("roots", nargs="+", metavar="DIR", help="a folder with Rust sources, or a file")
    parser.add_argument(
        "--limits",
        type=parse_limits,
        default=DEFAULT_LIMITS,
        metavar="RIDDLES,REPORTED,VAGUE",
        help=f"maximum rates per 1,000 comment lines (default {DEFAULT_LIMITS})",
    )
    parser.add_argument("--files", type=int, default=10, metavar="N", help="worst files to print (default 10)")
    parser.add_argument("--list", action="store_true", help="print every finding as PATH:LINE: KIND: TEXT")
    parsed = parser.parse_args()
    for root in parsed.roots:
        if not os.path.exists(root):
            parser.error(f"{root}: no such file or folder")
    return parsed


def main():
    given = arguments()
    total, files = Counter(), []
    for path in dict.fromkeys(path for root in given.roots for path in rust_files(root)):
        counts, findings = measure(path)
        total += counts
        files.append((sum(counts[kind] for kind in KINDS), path, counts))
        if given.list:
            for number, kind, text in sorted(findings):
                print(f"{path}:{number}: {kind}: {text}")
    if not total["lines"]:
        print("no comments found", file=sys.stderr)
        return 2

    print(f"{total['lines']:,} comment lines in {len(files):,} files")
    print(f"{'':10} {'count':>7} {'per 1,000':>10} {'limit':>6}")
    exceeded = []
    for kind in KINDS:
        rate = 1000 * total[kind] / total["lines"]
        if rate > given.limits[kind]:
            exceeded.append(kind)
        mark = "  too high" if kind in exceeded else ""
        print(f"{kind:10} {total[kind]:>7,} {rate:>10.1f} {given.limits[kind]:>6g}{mark}")

    worst = sorted((entry for entry in files if entry[0]), key=lambda entry: (-entry[0], entry[1]))
    if worst and given.files > 0:
        print("\nfiles with the most findings")
        for found, path, counts in worst[: given.files]:
            parts = ", ".join(f"{kind} {counts[kind]}" for kind in KINDS if counts[kind])
            print(f"{found:>5} in {counts['lines']:>4} lines  {path}  ({parts})")
    return 1 if exceeded else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
