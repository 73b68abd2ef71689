#!/usr/bin/env python3
"""Finds cycles among the modules of each crate, and fails if there is one.

    scripts/module_cycles.py [--edges] DIR...

DIR is a folder with crates (`crates`), or one crate (a folder with `src`). A module depends on another of its
crate if it names it or one of its items: in a `use`, or in a path that begins with `crate`, `self`, `super`,
a child module or an imported name. A re-export stands for the module that defines the item.

A module and its ancestors may depend on each other. Siblings may not: a cycle is a set of modules with one
parent (a strongly connected component) that all depend on each other, directly or through others of the set,
where a module stands for itself and all its descendants. Modules of tests (`#[cfg(test)]`) are left out.

Exit status: 0 if there is no cycle, 1 if there is one, 2 if the arguments are wrong. Needs Python 3 only.
"""

import argparse
import os
import re
import signal
import sys

LEXEME = re.compile(
    r"""
    (?P<line>//[^\n]*)
    | (?P<block>/\*)
    | (?P<raw>\bb?r(?P<hashes>\#*)"(?P<raw_text>.*?)"(?P=hashes))
    | (?P<string>b?"(?P<text>(?:\\.|[^"\\])*)")
    | (?P<char>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\])')
    | (?P<lifetime>'\w+)
    | (?P<word>(?:r\#)?[A-Za-z_]\w*)
    | (?P<number>\d\w*)
    | (?P<path>::)
    | (?P<mark>\S)
    """,
    re.VERBOSE | re.DOTALL,
)
BLOCK_COMMENT_PART = re.compile(r"/\*|\*/")
# A path in an attribute: `#[serde(with = "crate::duration")]`.
PATH_IN_STRING = re.compile(r"^(?:crate|self|super)(?:::\w+)+$")
LEXEME_OF_PATH = re.compile(r"\w+|::")
WORD = re.compile(r"^[A-Za-z_]")
ITEM_KEYWORDS = {"struct", "enum", "union", "trait", "fn", "type", "const", "static"}
CLOSING = {"(": ")", "[": "]", "{": "}"}


def lexemes(source):
    """Returns the words and marks of a Rust source, without comments, literals and lifetimes."""
    found, at = [], 0
    while match := LEXEME.search(source, at):
        at = match.end()
        kind = match.lastgroup
        if match["block"]:
            depth = 1
            while depth and (part := BLOCK_COMMENT_PART.search(source, at)):
                depth += 1 if part[0] == "/*" else -1
                at = part.end()
        elif match["word"]:
            found.append(match["word"].removeprefix("r#"))
        elif match["string"]:
            if PATH_IN_STRING.match(match["text"]):
                found.extend(LEXEME_OF_PATH.findall(match["text"]))
            found.append('""')
        elif kind in ("path", "mark"):
            found.append(match[0])
    return found


class Module:
    """A module: its names, its imports and the paths that its code contains."""

    def __init__(self, path, file):
        self.path = path
        self.file = file
        self.children = {}
        self.items = set()
        # Alias to the path that it stands for.
        self.imports = {}
        # Paths of modules whose names are all imported.
        self.globs = []
        # Paths in the code, as tuples of segments.
        self.mentions = set()


class Parser:
    """Parses the lexemes of one file into a module and its inline modules."""

    def __init__(self, words):
        self.words = words
        self.at = 0

    def peek(self, ahead=0):
        at = self.at + ahead
        return self.words[at] if at < len(self.words) else ""

    def skip_group(self):
        """Skips a balanced group that begins at the current position."""
        stack = []
        while self.at < len(self.words):
            word = self.words[self.at]
            self.at += 1
            if word in CLOSING:
                stack.append(CLOSING[word])
            elif stack and word == stack[-1]:
                stack.pop()
                if not stack:
                    return

    def attribute(self):
        """Reads `#[…]` and returns its words."""
        begin = self.at
        self.at += 1
        if self.peek() == "!":
            self.at += 1
        self.skip_group()
        return self.words[begin : self.at]

    def use_tree(self, prefix):
        """Reads the tree of a `use` and yields (path, alias); the alias of a glob is `*`."""
        path = list(prefix)
        while True:
            word = self.peek()
            if word == "{":
                self.at += 1
                while self.peek() not in ("}", ""):
                    yield from self.use_tree(path)
                    if self.peek() == ",":
                        self.at += 1
                self.at += 1
                return
            if word == "*":
                self.at += 1
                yield tuple(path), "*"
                return
            if not WORD.match(word or "-"):
                self.at += word == "::"
                if word != "::":
                    return
                continue
            self.at += 1
            if word == "self" and path:
                pass
            else:
                path.append(word)
            if self.peek() == "::":
                self.at += 1
                continue
            alias = path[-1]
            if self.peek() == "as":
                alias = self.peek(1)
                self.at += 2
            yield tuple(path), alias
            return


class Crate:
    """The modules of a crate by their paths (tuples of names)."""

    def __init__(self, folder):
        self.folder = folder
        self.modules = {}
        source = os.path.join(folder, "src")
        for root in ("lib.rs", "main.rs"):
            file = os.path.join(source, root)
            if os.path.isfile(file):
                # The binary of a crate is a crate of its own; its modules get a prefix.
                prefix = () if root == "lib.rs" or not self.modules else ("bin",)
                self.load(file, prefix, source)
        self.edges = self.resolve_all()

    def load(self, file, path, folder):
        """Reads a file as the module `path`; files of its child modules are in `folder`."""
        module = self.modules[path] = Module(path, file)
        with open(file, encoding="utf-8") as source:
            parser = Parser(lexemes(source.read()))
        self.read(parser, module, folder, is_inline=False)

    def read(self, parser, module, folder, is_inline):
        depth, is_test, custom_path = 0, False, None
        while parser.at < len(parser.words):
            word = parser.peek()
            if word == "#" and parser.peek(1) in ("[", "!"):
                if parser.peek(1) == "!" and parser.peek(2) != "[":
                    parser.at += 1
                    continue
                attribute = parser.attribute()
                is_test |= attribute[2:6] == ["cfg", "(", "test", ")"]
                self.mention(module, attribute[2:-1])
                continue
            if word == "mod" and WORD.match(parser.peek(1) or "-"):
                name = parser.peek(1)
                is_file = parser.peek(2) == ";"
                parser.at += 2
                if is_test:
                    if is_file:
                        parser.at += 1
                    else:
                        parser.skip_group()
                    is_test = False
                    continue
                self.child(parser, module, name, folder, is_file)
                continue
            if word == "use":
                parser.at += 1
                begin = parser.at
                for path, alias in parser.use_tree(()):
                    if alias == "*":
                        module.globs.append(path)
                    elif not is_test:
                        if alias != "_":
                            module.imports.setdefault(alias, path)
                        module.mentions.add(path)
                if parser.at == begin:
                    parser.at += 1
                is_test = False
                continue
            if is_test and word in ITEM_KEYWORDS | {"impl"}:
                self.skip_item(parser)
                is_test = False
                continue
            if word in ITEM_KEYWORDS and depth == 0 and WORD.match(parser.peek(1) or "-"):
                name = parser.peek(1)
                if name in ("fn", "unsafe", "async"):
                    name = parser.peek(2)
                module.items.add(name)
            if word == "macro_rules" and parser.peek(1) == "!":
                module.items.add(parser.peek(2))
            if word == "{":
                depth += 1
            elif word == "}":
                if depth == 0 and is_inline:
                    parser.at += 1
                    return
                depth -= 1
            elif WORD.match(word) and parser.words[parser.at - 1 : parser.at] not in (["::"], ["."]):
                self.mention_at(parser, module)
            parser.at += 1

    def child(self, parser, module, name, folder, is_file):
        path = module.path + (name,)
        module.children[name] = path
        if is_file:
            parser.at += 1
            beside = os.path.join(folder, name + ".rs")
            inside = os.path.join(folder, name, "mod.rs")
            file = beside if os.path.isfile(beside) else inside
            if os.path.isfile(file):
                self.load(file, path, os.path.join(folder, name))
            else:
                self.modules[path] = Module(path, module.file)
        else:
            parser.at += 1
            inline = self.modules[path] = Module(path, module.file)
            self.read(parser, inline, os.path.join(folder, name), is_inline=True)

    @staticmethod
    def skip_item(parser):
        """Skips to the end of an item: a `;`, or a block."""
        while parser.peek() not in (";", "{", ""):
            if parser.peek() in ("(", "["):
                parser.skip_group()
            else:
                parser.at += 1
        if parser.peek() == "{":
            parser.skip_group()
        else:
            parser.at += 1

    @staticmethod
    def mention(module, words):
        inner = Parser(words)
        while inner.at < len(words):
            if WORD.match(inner.peek()):
                Crate.mention_at(inner, module)
            inner.at += 1

    @staticmethod
    def mention_at(parser, module):
        """Records the path that begins at the current position."""
        path, ahead = [parser.peek()], 1
        while parser.peek(ahead) == "::" and WORD.match(parser.peek(ahead + 1) or "-"):
            path.append(parser.peek(ahead + 1))
            ahead += 2
        module.mentions.add(tuple(path))

    def resolve(self, module, path, seen=frozenset(), is_strict=False):
        """Returns the path of the module that defines what a path in `module` names, or None.

        An item that is not found in the module before it (a macro may define it) stands for that module,
        unless `is_strict`.
        """
        at, rest = module, path
        if rest[0] == "crate":
            root = ("bin",) if module.path[:1] == ("bin",) and ("bin",) in self.modules else ()
            at, rest = self.modules[root], rest[1:]
        elif rest[0] in ("self", "super"):
            while rest and rest[0] in ("self", "super"):
                if rest[0] == "super":
                    at = self.modules.get(at.path[:-1])
                    if at is None:
                        return None
                rest = rest[1:]
        return self.lookup(at, rest, seen, is_strict, is_first=at is module)

    def lookup(self, module, path, seen, is_strict, is_first):
        if not path:
            return module.path
        name, rest = path[0], path[1:]
        if name in module.children:
            child = self.modules[module.children[name]]
            return self.lookup(child, rest, seen, is_strict, is_first=False)
        if name in module.items:
            return module.path
        # An import that leads back to its own name (`use serde::serde`) names an external crate.
        if (module.path, name) in seen:
            return None
        seen = seen | {(module.path, name)}
        if name in module.imports:
            return self.resolve(module, module.imports[name] + rest, seen, is_strict)
        for glob in module.globs:
            found = self.resolve(module, glob + path, seen, is_strict=True)
            if found is not None:
                return found
        return None if is_first or is_strict else module.path

    def resolve_all(self):
        edges = {path: {} for path in self.modules}
        for module in self.modules.values():
            paths = module.mentions | {glob for glob in module.globs if glob}
            for path in paths:
                target = self.resolve(module, path)
                if target is not None and not is_family(module.path, target):
                    edges[module.path].setdefault(target, set()).add("::".join(path))
        return edges


def is_family(one, other):
    """True if one module is the other, its ancestor or its descendant."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def components(edges):
    """Returns the strongly connected components of more than one module (Tarjan's algorithm, iterative)."""
    index, low, on_stack, stack, found = {}, {}, set(), [], []
    for root in edges:
        if root in index:
            continue
        work = [(root, iter(edges[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(edges[target])))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = set()
                    while True:
                        member = stack.pop()
                        on_stack.remove(member)
                        component.add(member)
                        if member == node:
                            break
                    if len(component) > 1:
                        found.append(component)
    return found


def name(path):
    return "::".join(path) or "crate"


def cycles(edges):
    """Yields the cycles as (path of the parent, names of its children, edges among them)."""
    parents = {path[:depth] for path in edges for depth in range(len(path) + 1)}
    for parent in sorted(parents):
        depth = len(parent)
        children = {path[depth]: {} for path in edges if len(path) > depth and path[:depth] == parent}
        for source, targets in edges.items():
            for target in targets:
                is_below = source[:depth] == parent == target[:depth]
                if is_below and source[depth] != target[depth]:
                    children[source[depth]].setdefault(target[depth], []).append((source, target))
        for component in components(children):
            inner = [
                edge
                for source in sorted(component)
                for target in sorted(children[source].keys() & component)
                for edge in sorted(children[source][target])
            ]
            yield parent, component, inner


def crate_folders(roots):
    """Yields the folders with crates: a root itself, or its children."""
    for root in roots:
        if os.path.isdir(os.path.join(root, "src")):
            yield root
            continue
        for child in sorted(os.listdir(root)):
            if os.path.isdir(os.path.join(root, child, "src")):
                yield os.path.join(root, child)


def arguments():
    parser = argparse.ArgumentParser(
        description="Finds cycles among the modules of each crate.",
        epilog="Exits with 1 if there is a cycle.",
    )
    parser.add_argument("roots", nargs="+", metavar="DIR", help="a folder with crates, or one crate")
    parser.add_argument("--edges", action="store_true", help="print the dependencies within each cycle")
    parsed = parser.parse_args()
    for root in parsed.roots:
        if not os.path.isdir(root):
            parser.error(f"{root}: no such folder")
    return parsed


def main():
    given = arguments()
    crates, modules, failures = 0, 0, 0
    for folder in crate_folders(given.roots):
        crate = Crate(folder)
        label = os.path.basename(os.path.normpath(os.path.abspath(folder)))
        crates += 1
        modules += len(crate.modules)
        for parent, component, inner in cycles(crate.edges):
            failures += 1
            children = ", ".join(sorted(component))
            print(f"{label}: cycle of {len(component)} modules in {name(parent)}: {children}")
            if given.edges:
                for source, target in inner:
                    names = ", ".join(sorted(crate.edges[source][target]))
                    print(f"    {name(source)} -> {name(target)}  ({names})")
    if not modules:
        print("no modules found", file=sys.stderr)
        return 2
    print(f"{modules:,} modules in {crates} crates, {failures} cycles")
    return 1 if failures else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
