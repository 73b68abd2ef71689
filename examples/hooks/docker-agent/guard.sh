#!/bin/sh
# A guard of docker-agent, which knows a command as `cmd`.
if grep -Eq '"cmd" *: *"[^"]*rm +-(rf|fr)'; then
    echo '{"continue": false, "stop_reason": "rm -rf is not allowed", "hook_specific_output": {"hook_event_name": "pre_tool_use", "permission_decision": "deny", "permission_decision_reason": "rm -rf is not allowed"}}'
fi
