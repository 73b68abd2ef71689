#!/bin/sh
# Denies forced pushes. It is told of `git push` only.
if grep -Eq '"command" *: *"[^"]*push[^"]* (-f|--force)'; then
    echo "no forced pushes" >&2
    exit 2
fi
