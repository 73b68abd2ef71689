#!/usr/bin/env python3
"""Writes the JSON Schema of a Gemini request, derived from the types of the official client.

    pip install google-genai
    scripts/gemini_schema.py > crates/model/tests/data/gemini-schema.json

google-genai is licensed under the Apache License 2.0.
"""

import json
from importlib.metadata import version
from typing import Optional

from google.genai import _common, types


class GenerateContentRequest(_common.BaseModel):
    contents: list[types.Content]
    tools: Optional[list[types.Tool]] = None
    tool_config: Optional[types.ToolConfig] = None
    system_instruction: Optional[types.Content] = None
    generation_config: Optional[types.GenerationConfig] = None
    safety_settings: Optional[list[types.SafetySetting]] = None
    cached_content: Optional[str] = None


def bare(value):
    """Returns a schema without titles, descriptions and defaults."""
    if isinstance(value, list):
        return [bare(item) for item in value]
    if not isinstance(value, dict):
        return value
    is_text = lambda key, item: key in ("title", "description", "default") and not isinstance(item, dict)
    return {key: bare(item) for key, item in value.items() if not is_text(key, item)}


schema = bare(GenerateContentRequest.model_json_schema(by_alias=True))
schema["$comment"] = f"derived from google-genai {version('google-genai')} (Apache-2.0) by scripts/gemini_schema.py"
print(json.dumps(schema, sort_keys=True, separators=(",", ":")))
