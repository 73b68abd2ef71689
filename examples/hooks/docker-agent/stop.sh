#!/bin/sh
# A stop hook of docker-agent: says how the turn was answered.
told=$(cat)
answer=$(printf '%s' "$told" | sed -n 's/.*"stop_response" *: *"\(\([^"\\]\|\\.\)*\)".*/\1/p')
agent=$(printf '%s' "$told" | sed -n 's/.*"agent_name" *: *"\([^"]*\)".*/\1/p')
printf '{"system_message": "%s answered: %s"}\n' "$agent" "$answer"
