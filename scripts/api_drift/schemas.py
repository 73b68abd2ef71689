"""The JSON Schemas of the simulator."""

import json

from .declarations import REPOSITORY


def schema_of(kind):
    name = {"messages": "beta_messages"}.get(kind, kind)
    path = REPOSITORY / f"crates/simulator/data/schemas/{name}.json"
    return Schema(path) if path.exists() else None


class Schema:
    """A JSON Schema of the simulator."""

    def __init__(self, path):
        self.root = json.loads(path.read_text(encoding="utf-8"))

    def _properties(self, schema, seen=()):
        reference = schema.get("$ref", "").rpartition("/")[2]
        if reference:
            if reference in seen:
                return {}
            return self._properties(self.root["$defs"][reference], seen + (reference,))
        found = dict(schema.get("properties", {}))
        for part in schema.get("anyOf", []) + schema.get("allOf", []) + schema.get("oneOf", []):
            found.update(self._properties(part, seen))
        if isinstance(schema.get("items"), dict):
            found.update(self._properties(schema["items"], seen))
        if not found and schema.get("type") is None and not {"anyOf", "items", "enum", "const"} & schema.keys():
            # A schema that accepts anything.
            return {"*": {}}
        return found

    def paths(self):
        """The paths of members, two names deep. A member that accepts anything has all."""
        return PathSet(self._paths())

    def _paths(self):
        for name, schema in self._properties(self.root).items():
            yield name
            for inner in self._properties(schema):
                yield f"{name}.{inner}"

    def texts(self):
        """All values of `const` and `enum`, and names of properties."""
        found, waiting = set(), [self.root]
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                found |= {text for text in value.get("enum", []) if isinstance(text, str)}
                found |= {value["const"]} if isinstance(value.get("const"), str) else set()
                found |= set(value.get("properties", {})) if isinstance(value.get("properties"), dict) else set()
                waiting += value.values()
            elif isinstance(value, list):
                waiting += value
        return found


class PathSet(set):
    """Paths, of which `a.*` stands for all members of `a`."""

    def __and__(self, others):
        return {path for path in others if path in self or f"{path.partition('.')[0]}.*" in self}
