#!/usr/bin/env python3
"""A small MCP server over standard input and output, for examples/tool_in_workflow.yaml.

It has one tool, `define`, which returns the definition of a term. It needs nothing but Python 3.8.
"""

import json
import sys

TERMS = {
    "cache": "A store of results that are expensive to compute again.",
    "epoch": "A counter that is raised when something may have changed; older results are not served.",
    "witness": "A record of what a result was computed from, checked before the result is served again.",
}

TOOL = {
    "name": "define",
    "description": "Returns the definition of a term.",
    "inputSchema": {
        "type": "object",
        "properties": {"term": {"type": "string", "enum": sorted(TERMS)}},
        "required": ["term"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True},
}


def answer(method, params):
    """Returns the result of a request; None if the method is unknown."""
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "glossary", "version": "1.0.0"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        term = params.get("arguments", {}).get("term")
        known = term in TERMS
        text = TERMS[term] if known else f"there is no definition of {term!r}"
        return {"content": [{"type": "text", "text": text}], "isError": not known}
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue  # a notification
    result = answer(request["method"], request.get("params") or {})
    reply = {"jsonrpc": "2.0", "id": request["id"]}
    if result is None:
        reply["error"] = {"code": -32601, "message": f"unknown method {request['method']}"}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
