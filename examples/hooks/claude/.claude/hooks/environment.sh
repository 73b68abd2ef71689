#!/bin/sh
# Sets a variable for all later commands of the session.
if [ -n "$CLAUDE_ENV_FILE" ]; then
    echo 'export PROJECT_STAGE=test' >> "$CLAUDE_ENV_FILE"
fi
