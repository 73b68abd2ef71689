"""What the repository declares of outside formats: tables of members, words in the code of readers."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


class Failure(Exception):
    """A package that cannot be fetched or read."""


def rust_source(path):
    """The code of a Rust file, without comments and without its module of tests."""
    text = path.read_text(encoding="utf-8").split("\n#[cfg(test)]\n")[0]
    return re.sub(r"^\s*//.*$", "", text, flags=re.M)


class Declared:
    """What the table of members of a format declares: crates/wire/src/FORMAT/members.yaml."""

    def __init__(self, path):
        table = read_yaml(path)
        # Paths of request members: `reasoning.effort`. What is below a path in `open` needs no declaration.
        self.members, self.open = set(), set()
        self.objects = set()
        for name, row in table["request"].items():
            self._add(name, row)
        self.items = set(table.get("items") or table.get("parts", {}))
        self.parts = set(table.get("parts", {}))
        # Types of tools; `*` at the end stands for any ending.
        self.tools = set(table.get("tools", {})) - {""}

    def _add(self, path, row):
        self.members.add(path)
        if row.get("open") == "true":
            self.open.add(path)
        if row.get("object") == "true":
            self.objects.add(normalized(path.rpartition(".")[2]))
        for name, inner in row.get("members", {}).items():
            self._add(f"{path}.{name}", inner)


def declared(kind):
    """The declaration of a format; None if there is none."""
    path = REPOSITORY / f"crates/wire/src/{kind}/members.yaml"
    return Declared(path) if path.exists() else None


def shared_lists():
    """Lists that apply to all formats: values of `type` with the price of text, members that name objects."""
    table = read_yaml(REPOSITORY / "crates/wire/data/members.yaml")
    return {"types": set(table["types"]), "objects": set(table["objects"])}


def read_yaml(path):
    """Reads the YAML of the tables of members: mappings by indentation, whose values are scalars or flow collections.

    Raises Failure for anything else."""
    root, levels, waiting = {}, [], ""
    for at, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        waiting = f"{waiting} {line.strip()}" if waiting else line.rstrip()
        if waiting.count("{") + waiting.count("[") > waiting.count("}") + waiting.count("]"):
            continue
        row = re.fullmatch(r'( *)(?:"([^"]*)"|([\w.$-]+)):(?: +(.+))?', waiting)
        place, waiting = f"{path.name}:{at}", ""
        if not row or (row.group(4) or "")[:1] in ("|", ">", "&", "*", "!", "-"):
            raise Failure(f"{place}: not a line of the form `NAME: VALUE`")
        indent, name, value = len(row.group(1)), row.group(2), row.group(4)
        name = row.group(3) if name is None else name
        while levels and levels[-1][0] >= indent:
            levels.pop()
        owner = levels[-1][1] if levels else root
        if name in owner:
            raise Failure(f"{place}: `{name}` is given twice")
        if value is None:
            owner[name] = {}
            levels.append((indent, owner[name]))
        else:
            owner[name] = flow(value)
    return root


def require(kind):
    own = declared(kind)
    if own is None:
        raise Failure(f"crates/wire/src/{kind}/members.yaml is missing")
    return own


def sources(*patterns):
    """The Rust code of the files that match a pattern below the repository, without tests."""
    for pattern in patterns:
        paths = sorted(REPOSITORY.glob(pattern))
        if not paths:
            raise Failure(f"{pattern}: there is no such file in the repository")
        for path in paths:
            if "/tests/" not in path.as_posix():
                yield rust_source(path)


def texts(*patterns):
    """All texts in quotes in the Rust code of files."""
    return {text for source in sources(*patterns) for text in re.findall(r'"([^"\n]+)"', source)}


def words(*patterns):
    """All texts and names in the Rust code of files, normalized: `"a/b"` is one text and two names."""
    names = {name for source in sources(*patterns) for name in re.findall(r"\w+", source)}
    return {normalized(word) for word in names | texts(*patterns)}


def words_of(folder):
    """The words of the reader of a format. The conversion between forms of an answer reads no usage and shows nothing."""
    files = (path.relative_to(REPOSITORY).as_posix() for path in REPOSITORY.glob(f"crates/wire/src/{folder}/**/*.rs"))
    return words(f"crates/wire/src/{folder}.rs", *(file for file in files if not file.endswith("/conversion.rs")))


def normalized(name):
    return name.replace("_", "").replace("-", "").lower()


def flow(text):
    """The value of a scalar or a YAML flow collection: `{name: 1.5, list: [a, b], other: {...}}`."""
    tokens = re.findall(r'[{}\[\],]|"[^"]*":(?= )|[\w.$@/*-]+:(?= )|"[^"]*"|[^\s{}\[\],"][^{}\[\],]*', text)
    value, rest = _flow_value(tokens)
    if rest and text[0] in "{[":
        raise Failure(f"not a flow collection: {text[:99]}")
    return value if text[0] in "{[" else text.strip('"')


def _flow_value(tokens):
    if not tokens:
        raise Failure("a flow collection has no end")
    head, rest = tokens[0], tokens[1:]
    if head not in "{[":
        return head.strip().strip('"'), rest
    closing, values = {"{": "}", "[": "]"}[head], {} if head == "{" else []
    while rest[:1] != [closing]:
        if rest[:1] == [","]:
            rest = rest[1:]
            continue
        if head == "{":
            if not rest or not rest[0].endswith(":"):
                raise Failure(f"not a flow mapping: {' '.join(tokens[:9])}")
            key = rest[0][:-1].strip('"')
            values[key], rest = _flow_value(rest[1:])
        else:
            value, rest = _flow_value(rest)
            values.append(value)
    return values, rest[1:]
