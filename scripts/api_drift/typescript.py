"""Reads the interfaces and type aliases of TypeScript declaration files (.d.ts).

It reads the subset that the SDKs of OpenAI, Anthropic and Google use: namespaces, interfaces and classes with their
members, aliases. Generics, methods and index signatures are skipped. Needs Python 3.9 and no package.
"""

import re

TOKEN = re.compile(
    r"/\*.*?\*/|//[^\n]*"
    r"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|`(?:\\.|[^`\\])*`"
    r"|[A-Za-z_$][\w$]*|\d[\w.]*|=>|\.\.\.|\S",
    re.S,
)
WORD = re.compile(r"[A-Za-z_$]")
LISTS = ("Array", "ReadonlyArray")
OPENING, CLOSING = "{[(", "}])"
MODIFIERS = {"readonly", "static", "private", "protected", "public", "declare", "abstract"}


class Member:
    """A member of an object type."""

    def __init__(self, scope, tokens, is_header):
        # The full name of the type in which names of the member's type are looked up.
        self.scope = scope
        self.tokens = tokens
        # True if the SDK sends it as a header.
        self.is_header = is_header


class Types:
    """The types of some files; of two with one name, the type of the file that is named first counts."""

    def __init__(self, *paths):
        # Full name -> (tokens of the names that it extends, tokens between its braces).
        self._objects = {}
        # Full name -> tokens.
        self._aliases = {}
        for path in paths:
            tokens = TOKEN.findall(path.read_text(encoding="utf-8"))
            self._read(tokens, "")

    def _read(self, tokens, prefix):
        closes = _pairs(tokens)
        at, end = 0, len(tokens)
        while at < end:
            token = tokens[at]
            is_named = at + 1 < end and WORD.match(tokens[at + 1])
            if token in ("interface", "class", "namespace") and is_named:
                name = prefix + tokens[at + 1]
                brace = _brace(tokens, at + 2)
                body = tokens[brace + 1 : closes[brace]]
                if token == "namespace":
                    self._read(body, name + ".")
                else:
                    head = tokens[at + 2 : brace]
                    base = head[head.index("extends") + 1 :] if "extends" in head else []
                    if "implements" in base:
                        base = base[: base.index("implements")]
                    self._objects.setdefault(name, (base, body))
                at = closes[brace]
            elif token == "type" and is_named:
                stop = at + 2
                while stop < end and tokens[stop] != ";":
                    stop = closes.get(stop, stop) + 1
                alias = tokens[at + 2 : stop]
                if "=" in alias:
                    self._aliases.setdefault(prefix + tokens[at + 1], alias[alias.index("=") + 1 :])
                at = stop
            elif token in OPENING:
                at = closes[at]
            at += 1

    def resolve(self, name, scope=""):
        """The full name of a type that is named in the type `scope`; None if the files do not have it."""
        parts = name.split(".")
        tries = []
        while scope:
            tries.append(scope + "." + name)
            scope = scope.rpartition(".")[0]
        tries.append(name)
        # `Shared.Reasoning` is a type of another file.
        tries += [".".join(parts[count:]) for count in range(1, len(parts))]
        return next((full for full in tries if full in self._objects or full in self._aliases), None)

    def require(self, name):
        """The full name of a type that has to be there.

        Raises LookupError if it is not: the SDK has another form than this program reads."""
        full = self.resolve(name)
        if full is None:
            raise LookupError(f"no type `{name}`")
        return full

    def members(self, name, scope=""):
        """The members of an object type, or of all alternatives of a union, by their names."""
        full = self.resolve(name, scope)
        return self._members_of(full, set()) if full else {}

    def _members_of(self, full, seen):
        if full in seen:
            return {}
        seen = seen | {full}
        if full in self._aliases:
            return self._members_in(self._aliases[full], full, seen)
        base, body = self._objects[full]
        found = {}
        for name in _names(base):
            other = self.resolve(name, full)
            if other:
                found.update(self._members_of(other, seen))
        found.update(_body_members(body, full))
        return found

    def _members_in(self, tokens, scope, seen=frozenset()):
        """The members of the object types that a type consists of: of unions, of the elements of lists."""
        found = {}
        for part in _alternatives(tokens):
            if part[0] == "{":
                found.update(_body_members(part[1 : _pairs(part)[0]], scope))
                continue
            if part[0] in LISTS:
                found.update(self._members_in(_argument(part), scope, seen))
                continue
            if part[0] in ("Record", "Omit", "Pick"):
                continue
            names = _names(part)
            full = self.resolve(names[0], scope) if names else None
            if full:
                found.update(self._members_of(full, set(seen)))
        return found

    def nested(self, member):
        """The members of the object types that a member's type consists of."""
        return self._members_in(member.tokens, member.scope)

    def texts(self, tokens, scope=""):
        """The texts that a value of a type can be."""
        found = set()
        for part in _alternatives(tokens):
            if len(part) == 1 and part[0][0] in "'\"":
                found.add(part[0][1:-1])
                continue
            names = _names(part)
            if len(names) == 1 and "<" not in part and "{" not in part:
                full = self.resolve(names[0], scope)
                if full in self._aliases and full != scope:
                    found |= self.texts(self._aliases[full], full)
        return found

    def alias_texts(self, name):
        """The texts that a value of a type alias can be."""
        full = self.require(name)
        return self.texts(self._aliases.get(full, []), full)

    def kinds(self, name, member="type"):
        """The texts of `member` in the alternatives of a union of object types."""
        full = self.require(name)
        return self._kinds_of(full, member, set())

    def kinds_in(self, holder, member="type"):
        """The texts of `member` in the object types of which another member's type consists."""
        return self._kinds_in(holder.tokens, holder.scope, member, set())

    def _kinds_of(self, full, member, seen):
        if full in seen:
            return set()
        seen.add(full)
        if full in self._aliases:
            return self._kinds_in(self._aliases[full], full, member, seen)
        found = self._members_of(full, set()).get(member)
        return self.texts(found.tokens, found.scope) if found else set()

    def _kinds_in(self, tokens, scope, member, seen):
        kinds = set()
        for part in _alternatives(tokens):
            if part[0] == "{":
                found = _body_members(part[1 : _pairs(part)[0]], scope).get(member)
                kinds |= self.texts(found.tokens, found.scope) if found else set()
                continue
            if part[0] in LISTS:
                kinds |= self._kinds_in(_argument(part), scope, member, seen)
                continue
            names = _names(part)
            full = self.resolve(names[0], scope) if names else None
            kinds |= self._kinds_of(full, member, seen) if full else set()
        return kinds

    def reachable(self, *roots):
        """The full names of the types that are named in the members of others, beginning with `roots`."""
        seen, waiting = set(), [self.require(root) for root in roots]
        while waiting:
            full = waiting.pop()
            if full in seen:
                continue
            seen.add(full)
            base, body = self._objects.get(full, ([], []))
            for name in set(_names(base) + _names(body) + _names(self._aliases.get(full, []))):
                other = self.resolve(name, full)
                if other and other not in seen:
                    waiting.append(other)
        return seen

    def reachable_members(self, *roots):
        """All members of the types that are reachable from `roots`: pairs of name and member."""
        for full in self.reachable(*roots):
            if full in self._objects:
                yield from self._members_of(full, set()).items()
            else:
                yield from self._members_in(self._aliases[full], full).items()


def _pairs(tokens):
    """Indices of closing brackets by those of their opening ones."""
    found, waiting = {}, []
    for at, token in enumerate(tokens):
        if token in OPENING:
            waiting.append(at)
        elif token in CLOSING:
            if not waiting:
                raise ValueError("brackets do not match")
            found[waiting.pop()] = at
    if waiting:
        raise ValueError("brackets do not match")
    return found


def _brace(tokens, at):
    """The index of the brace that opens a body: not of one within generics."""
    depth = 0
    while tokens[at] != "{" or depth:
        depth += {"<": 1, ">": -1}.get(tokens[at], 0)
        at += 1
    return at


def _names(tokens):
    """Names with their qualifications, such as `A.B`, in the order of the tokens."""
    found, at = [], 0
    while at < len(tokens):
        if WORD.match(tokens[at]):
            name = tokens[at]
            while at + 2 < len(tokens) and tokens[at + 1] == "." and WORD.match(tokens[at + 2]):
                name += "." + tokens[at + 2]
                at += 2
            found.append(name)
        at += 1
    return found


def _argument(part):
    """The type of the elements of `Array<T>`."""
    return part[part.index("<") + 1 : len(part) - 1] if "<" in part else []


def _is_comment(token):
    return token.startswith(("/*", "//"))


def _alternatives(tokens):
    """The alternatives of a union, each as its tokens."""
    parts, depth = [[]], 0
    for token in tokens:
        if _is_comment(token):
            continue
        depth += (token in OPENING or token == "<") - (token in CLOSING or token == ">")
        if token == "|" and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    whole = [part for part in parts if part]
    inner = []
    for part in whole:
        # A union in parentheses: of the elements of a list.
        if part[0] == "(" and _pairs(part)[0] in (len(part) - 1, len(part) - 3):
            inner += _alternatives(part[1 : _pairs(part)[0]])
        else:
            inner.append(part)
    return inner


def _body_members(body, scope):
    """The members between the braces of an object type."""
    found, closes, at, notes = {}, _pairs(body), 0, ""
    while at < len(body):
        token = body[at]
        if _is_comment(token):
            notes += token
        elif token in MODIFIERS and at + 1 < len(body) and body[at + 1] not in ":?;":
            pass
        elif WORD.match(token) or token[0] in "'\"":
            name = token.strip("'\"")
            at += 1
            if at < len(body) and body[at] == "?":
                at += 1
            is_member = at < len(body) and body[at] == ":"
            start = at + 1
            while at < len(body) and body[at] not in (";", ","):
                at = closes.get(at, at) + 1
                # The comma of generics.
                while at < len(body) and body[at] == "," and body[start:at].count("<") > body[start:at].count(">"):
                    at += 1
            if is_member:
                found[name] = Member(scope, body[start:at], "Header param" in notes)
            notes = ""
        else:
            # An index signature, or a method without a name.
            while at < len(body) and body[at] != ";":
                at = closes.get(at, at) + 1
            notes = ""
        at += 1
    return found
