#!/bin/sh
# Keeps `.env` files as they are.
file=$(sed -n 's/.*"file_path" *: *"\([^"]*\)".*/\1/p')
case $file in
"$CLAUDE_PROJECT_DIR"/*.env | "$CLAUDE_PROJECT_DIR"/.env)
    echo "$file holds secrets: leave it alone" >&2
    exit 2 ;;
esac
