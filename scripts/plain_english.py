#!/usr/bin/env python3
"""Measures how plain the English of comments or of texts is, and fails if a limit is exceeded.

    scripts/plain_english.py [--texts] [--limits RIDDLES,REPORTED,VAGUE] [--files N] [--list] PATH...

By default the comments of Rust sources are measured. With --texts, the texts for people and models are
measured instead: string literals of at least two words in Rust sources, and lines of prose in Markdown.

Three counts, each per 1,000 comment lines or texts:

riddles   paragraphs of a comment that open with a word such as "What" or "Whether" and are no question.
          A doc comment opens with the thing itself or with a verb: "Returns …", "The maximum …".
reported  "told", "tells", "said": name the data flow (receives, reports, contains).
vague     "nobody", "whoever", "somebody", "anybody", "whatever": name the role (caller, reader, task).

Code (`…`, fenced blocks, `{…}` in string literals) is not counted. Folders, files and modules of tests and
benchmarks, build output and hidden folders are skipped. When comments are measured, a line of a multi-line
string that begins with // counts as a comment, and modules of tests are not skipped. Riddles are counted in
comments only: a text may be a part of a sentence.

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
DEFAULT_TEXT_LIMITS = "0,2,1"
SKIPPED_FOLDERS = {"bench", "benches", "target", "test", "tests"}
SKIPPED_FILES = {"tests.rs"}

COMMENT = re.compile(r"^\s*//(?P<kind>[/!]?)(?!/)(?P<text>.*)$")
HEADING = re.compile(r"^#{1,6} ")
LIST_ITEM = re.compile(r"^(?:[-*+]|\d+[.)]) +")
INLINE_CODE = re.compile(r"`[^`]*`")
# Comments, string literals, character literals and lifetimes: whatever a quotation mark may belong to.
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/"""
    r"""|b?c?r(?P<hashes>\#*)"(?P<raw>.*?)"(?P=hashes)"""
    r"""|[bc]?"(?P<text>(?:\\.|[^"\\])*)\""""
    r"""|b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\])'|'\w+""",
    re.DOTALL,
)
TEST_MODULE = re.compile(r"^ *#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod \w+ \{", re.MULTILINE)
LINE_CONTINUATION = re.compile(r"\\\n\s*")
PLACEHOLDER = re.compile(r"\{[^{}]*\}")
TWO_WORDS = re.compile(r"[A-Za-z]{2,}[,.:;]? [A-Za-z`]{2,}")
FIRST_SENTENCE = re.compile(r"^.*?[.?!:](?=\s|$)", re.DOTALL)
OPENING = re.compile(r"^(?:What|Who|Whoever|Whether|So|Of|As|That|Those|How|Where)\b")
WORDS = {
    "reported": re.compile(r"\b(?:told|tells|said)\b", re.IGNORECASE),
    "vague": re.compile(r"\b(?:nobody|whoever|somebody|anybody|whatever)\b", re.IGNORECASE),
}


def source_files(root, endings):
    """Yields the files below a folder with these endings, sorted. A path of a file yields that file."""
    if os.path.isfile(root):
        yield root
        return
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith(".")
        )
        for name in sorted(names):
            if name.endswith(endings) and name not in SKIPPED_FILES:
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


def texts_of_rust(source):
    """Yields the string literals outside of modules of tests, each as (line number, text)."""
    test_module = TEST_MODULE.search(source)
    end = test_module.start() if test_module else len(source)
    for token in TOKEN.finditer(source, 0, end):
        text = token["text"] if token["text"] is not None else token["raw"]
        if text is None:
            continue
        text = PLACEHOLDER.sub("", LINE_CONTINUATION.sub("", text))
        if TWO_WORDS.search(text):
            yield source.count("\n", 0, token.start()) + 1, text.replace("\n", " ")


def texts_of_markdown(source):
    """Yields the lines outside of fenced blocks, each as (line number, text)."""
    fenced = False
    for number, line in enumerate(source.splitlines(), 1):
        is_fence = line.lstrip().startswith("```")
        fenced ^= is_fence
        if not fenced and not is_fence and TWO_WORDS.search(line):
            yield number, line.strip()


def measure_texts(path):
    """Returns the counts of the texts of a file and its findings as (line number, kind, text)."""
    counts, findings = Counter(), []
    with open(path, encoding="utf-8", errors="replace") as file:
        source = file.read()
    texts = texts_of_markdown(source) if path.endswith(".md") else texts_of_rust(source)
    for number, text in texts:
        counts["lines"] += 1
        prose = INLINE_CODE.sub("", text)
        for kind, pattern in WORDS.items():
            found = len(pattern.findall(prose))
            counts[kind] += found
            if found:
                findings.append((number, kind, text))
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
        description="Measures how plain the English of comments or of texts is.",
        epilog="Exits with 1 if a rate is above its limit.",
    )
    parser.add_argument("roots", nargs="+", metavar="PATH", help="a folder with sources, or a file")
    parser.add_argument(
        "--texts",
        action="store_true",
        help="measure string literals in Rust sources and prose in Markdown instead of comments",
    )
    parser.add_argument(
        "--limits",
        type=parse_limits,
        metavar="RIDDLES,REPORTED,VAGUE",
        help="maximum rates per 1,000 comment lines or texts "
        f"(default {DEFAULT_LIMITS}, with --texts {DEFAULT_TEXT_LIMITS})",
    )
    parser.add_argument("--files", type=int, default=10, metavar="N", help="worst files to print (default 10)")
    parser.add_argument("--list", action="store_true", help="print every finding as PATH:LINE: KIND: TEXT")
    parsed = parser.parse_args()
    for root in parsed.roots:
        if not os.path.exists(root):
            parser.error(f"{root}: no such file or folder")
    if parsed.limits is None:
        parsed.limits = parse_limits(DEFAULT_TEXT_LIMITS if parsed.texts else DEFAULT_LIMITS)
    return parsed


def main():
    given = arguments()
    unit, endings, count = "comment lines", (".rs",), measure
    if given.texts:
        unit, endings, count = "texts", (".rs", ".md"), measure_texts
    total, files = Counter(), []
    for path in dict.fromkeys(path for root in given.roots for path in source_files(root, endings)):
        counts, findings = count(path)
        total += counts
        files.append((sum(counts[kind] for kind in KINDS), path, counts))
        if given.list:
            for number, kind, text in sorted(findings):
                print(f"{path}:{number}: {kind}: {text}")
    if not total["lines"]:
        print(f"no {unit} found", file=sys.stderr)
        return 2

    print(f"{total['lines']:,} {unit} in {len(files):,} files")
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
            print(f"{found:>5} in {counts['lines']:>4} {unit}  {path}  ({parts})")
    return 1 if exceeded else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
