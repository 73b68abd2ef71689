#!/bin/sh
# Denies `rm -rf`, and says in which turn.
told=$(cat)
turn=$(printf '%s' "$told" | sed -n 's/.*"turn_id" *: *"\([^"]*\)".*/\1/p')
case $told in
*'"command":"rm -rf'*)
    printf '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no rm -rf in %s"}}\n' "$turn" ;;
esac
