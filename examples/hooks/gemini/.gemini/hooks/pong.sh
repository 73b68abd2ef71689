#!/bin/sh
# Answers `ping` instead of the model.
if grep -q '"content" *: *"ping"'; then
    echo '{"hookSpecificOutput": {"hookEventName": "BeforeModel", "llm_response": {"candidates": [{"content": {"role": "model", "parts": ["po", "ng"]}, "finishReason": "STOP"}]}}}'
else
    echo '{}'
fi
