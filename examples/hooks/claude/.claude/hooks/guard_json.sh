#!/bin/sh
# The same as JSON; asks about `git push`, and allows `ls`.
command=$(sed -n 's/.*"command" *: *"\(\([^"\\]\|\\.\)*\)".*/\1/p')
decision=
case $command in
*"rm -rf"* | *"rm -fr"*) decision=deny ;;
"git push"*) decision=ask ;;
"ls" | "ls "*) decision=allow ;;
*) exit 0 ;;
esac
printf '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "%s", "permissionDecisionReason": "the rule of this project"}}\n' "$decision"
