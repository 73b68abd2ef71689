"""The kinds of lines in the transcripts of Claude Code and Codex, read from the programs."""

import mmap
import re

from .declarations import Failure, texts

# The program in the package of a platform.
CODEX = "vendor/*/bin/codex"


def claude_code(folder, findings):
    """The kinds of transcript lines in the program's JavaScript, which the binary has as text: keys of tables, and objects
    of a kind and a session."""
    marker, kinds = b'"queue-operation":"', set()
    with open(folder / "claude", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = data.find(marker)
        while at >= 0:
            table = data[data.rfind(b"{", max(0, at - 20_000), at) : data.find(b"}", at, at + 20_000)]
            names = re.findall(rb'(?:"([\w-]+)"|\b([a-z]+)):"[\w-]+"', table)
            kinds |= {(quoted or plain).decode() for quoted, plain in names}
            at = data.find(marker, at + 1)
        if len(kinds) >= 20:
            rows = re.finditer(rb'\{type:"([a-z][a-z-]+)",(?:[^{}]|\{[^{}]*\}){0,400}?sessionId:', data)
            kinds |= {row.group(1).decode() for row in rows}
    if len(kinds) < 20:
        findings.unreadable("transcript.claude-code", "the binary has no readable tables of line kinds")
        return
    known = texts("crates/prefix/src/spend/transcripts/claude_code.rs")
    findings.lacking("transcript.claude-code", kinds, known)


def codex(folder, findings):
    """The kinds of rollout lines: the variants of the type of a line, which a reader of JSON names in its messages."""
    path = next(iter(folder.glob(CODEX)), None)
    if path is None:
        raise Failure("no binary in vendor/*/bin; the package without a platform has none")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        variants = set(re.findall(rb"struct variant RolloutItemWire::(\w+?) with \d+ element", data))
    if len(variants) < 5:
        findings.unreadable("transcript.codex", "the binary has no readable list of line kinds")
        return
    kinds = {re.sub(r"(?<!^)(?=[A-Z])", "_", name.decode()).lower() for name in variants}
    findings.lacking("transcript.codex", kinds, texts("crates/prefix/src/rollout.rs"))
