#!/bin/sh
# Denies `rm -rf`, in our own words.
if grep -Eq '"command" *: *"[^"]*rm +-(rf|fr)'; then
    echo '{"decision": "block", "reason": "rm -rf is for people; move it to a trash folder instead"}'
fi
