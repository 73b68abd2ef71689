#!/usr/bin/env python3
"""Writes the JSON Schema of a Converse request, derived from the service model of the official client.

    pip install botocore
    scripts/converse_schema.py > crates/simulator/data/schemas/converse.json

botocore is licensed under the Apache License 2.0. Objects are closed, and a union has exactly one member,
as the client demands. Patterns hold for whole values, as the service demands.
"""

import json
from importlib.metadata import version

from botocore.loaders import Loader

SHAPES = Loader().load_service_model("bedrock-runtime", "service-2")["shapes"]
ROOT = "ConverseRequest"


def reference(name, found):
    found.append(name)
    return {"$ref": f"#/$defs/{name}"}


def bounds(shape, least, most):
    names = {"min": least, "max": most}
    return {names[key]: shape[key] for key in names if key in shape}


def schema(shape, found):
    kind = shape["type"]
    if kind == "structure" and shape.get("document"):
        return {"type": "object"}
    if kind == "structure":
        in_body = {key: member for key, member in shape["members"].items() if member.get("location") is None}
        made = {
            "type": "object",
            "additionalProperties": False,
            "properties": {key: reference(member["shape"], found) for key, member in in_body.items()},
        }
        required = [key for key in shape.get("required", []) if key in in_body]
        if required:
            made["required"] = required
        if shape.get("union"):
            made.update(minProperties=1, maxProperties=1)
        return made
    if kind == "list":
        return {"type": "array", "items": reference(shape["member"]["shape"], found),
                **bounds(shape, "minItems", "maxItems")}
    if kind == "map":
        return {"type": "object", "additionalProperties": reference(shape["value"]["shape"], found),
                "propertyNames": reference(shape["key"]["shape"], found),
                **bounds(shape, "minProperties", "maxProperties")}
    if kind == "string":
        made = {"type": "string", **bounds(shape, "minLength", "maxLength")}
        if "enum" in shape:
            made["enum"] = shape["enum"]
        if "pattern" in shape:
            made["pattern"] = f"^(?:{shape['pattern']})$"
        return made
    if kind == "blob":
        return {"type": "string", "contentEncoding": "base64", **bounds(shape, "minLength", "maxLength")}
    if kind in ("integer", "long"):
        return {"type": "integer", **bounds(shape, "minimum", "maximum")}
    if kind in ("float", "double"):
        return {"type": "number", **bounds(shape, "minimum", "maximum")}
    if kind == "boolean":
        return {"type": "boolean"}
    raise SystemExit(f"no schema for {kind}")


definitions = {}
waiting = []
made = schema(SHAPES[ROOT], waiting)
while waiting:
    name = waiting.pop()
    if name not in definitions:
        definitions[name] = {}
        definitions[name] = schema(SHAPES[name], waiting)
note = f"derived from botocore {version('botocore')} (Apache-2.0) by scripts/converse_schema.py"
print(json.dumps({"$comment": note, **made, "$defs": definitions}, sort_keys=True, separators=(",", ":")))
