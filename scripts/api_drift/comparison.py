"""Comparison of names outside with those that the repository declares."""

import fnmatch
import re

from .declarations import REPOSITORY, Failure, normalized, texts
from .schemas import schema_of


class Findings:
    """The differences of one package."""

    def __init__(self, package):
        self.package = package
        self.entries = []
        # Parts that could not be compared, with the reason.
        self.notes = []

    def add(self, state, section, name):
        if re.search(r"\s", name):
            raise Failure(f"{section}: a name with a space: {name!r}")
        self.entries.append(f"{state} {section} {name}")

    def unreadable(self, section, why):
        """Notes that a package is there and cannot be compared, as an entry that can be judged."""
        self.notes.append(f"{section}: {why}")
        self.add("gone", section, "readable-names")

    def compare(self, section, outside, inside, least=1):
        """Compares two sets of names; `least` are expected outside, or the package has another form."""
        self.lacking(section, outside, inside, least)
        for name in sorted(inside - outside):
            self.add("gone", section, name)

    def lacking(self, section, outside, inside, least=1):
        if len(outside) < least:
            raise Failure(f"{section}: {len(outside)} names found, at least {least} expected")
        for name in sorted(outside - inside):
            self.add("new", section, name)

    def unread(self, section, outside, inside, least=1):
        """Compares names with words of the source, in which nothing can be gone."""
        known = {name for name in outside if normalized(name) in inside}
        self.lacking(section, outside, known, least)


def paths(types, members, without):
    """The names of members and, for objects, those of their members: `reasoning.effort`."""
    found = set()
    for name, member in members.items():
        if member.is_header:
            continue
        found.add(name)
        if name not in without:
            found |= {f"{name}.{inner}" for inner in types.nested(member)}
    return found


def values(types, members, without):
    """The texts that members and the members of their objects can have: `reasoning.effort=low`."""
    found = set()
    for name, member in members.items():
        if member.is_header or name in without:
            continue
        found |= {f"{name}={text}" for text in types.texts(member.tokens, member.scope)}
        for inner, of_inner in types.nested(member).items():
            found |= {f"{name}.{inner}={text}" for text in types.texts(of_inner.tokens, of_inner.scope)}
    return {value for value in found if not re.search(r"\bmodel=", value)}


def compare_members(findings, kind, outside, own, least):
    """Compares paths of request members, with the declaration and with the simulator's schema."""
    covered = {path for path in outside if path.partition(".")[0] in own.open}
    findings.compare(f"{kind}.member", outside, own.members | covered, least)
    schema = schema_of(kind)
    if schema is None:
        findings.notes.append(f"{kind} in the simulator: it has no schema")
    else:
        findings.lacking(f"simulator.{kind}.member", outside, schema.paths() & outside)


def compare_kinds(findings, section, outside, least):
    """Compares values of `type` with those of the simulator's schema."""
    schema = schema_of(section.partition(".")[0])
    if schema is not None:
        findings.lacking(f"simulator.{section}", outside, schema.texts(), least)


def compare_tools(findings, kind, outside, own, least):
    """Compares types of tools, of which the declaration has beginnings, too."""
    inside = {tool for tool in outside if any(fnmatch.fnmatchcase(tool, pattern) for pattern in own.tools)}
    gone = {pattern for pattern in own.tools if not any(fnmatch.fnmatchcase(tool, pattern) for tool in outside)}
    findings.compare(f"{kind}.tool", outside, inside | gone, least)
    compare_kinds(findings, f"{kind}.tool", outside, least)


def kinds_of(types, root):
    """All values of the member `type` in a request."""
    return {text for name, member in types.reachable_members(root) if name == "type"
            for text in types.texts(member.tokens, member.scope)}


def compare_ids(findings, section, types, roots, objects):
    """Compares members that name something by its ID with those that refer to objects at the provider."""
    ids = {name for name, _ in types.reachable_members(*roots) if re.search(r"(^id|_ids?)$", name)}
    findings.lacking(section, ids, {name for name in ids if normalized(name) in objects}, 3)


def counters(types, root):
    found = set()
    for full in types.reachable(root):
        found |= set(types.members(full))
    return found


def compare_values(findings, section, values, least):
    """Compares `member=value` with the texts of the sources that price and judge requests."""
    known = texts("crates/accounting/src/**/*.rs", "crates/wire/src/**/*.rs", "crates/gateway/src/**/*.rs")
    # The catalog has the efforts of models.
    tables = [*REPOSITORY.glob("crates/wire/src/*/members.yaml"), REPOSITORY / "crates/model/data/models.yaml"]
    for path in tables:
        known |= set(re.findall(r"[\w-]+", path.read_text(encoding="utf-8")))
    findings.lacking(section, values, {value for value in values if value.split("=")[1] in known}, least)
