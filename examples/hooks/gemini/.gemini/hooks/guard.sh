#!/bin/sh
# Denies `rm -rf`, and has nothing against anything else.
if grep -q 'rm -rf'; then
    echo '{"decision": "deny", "reason": "rm -rf is not allowed"}'
else
    echo '{"decision": "allow"}'
fi
