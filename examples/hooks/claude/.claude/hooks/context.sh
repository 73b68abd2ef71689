#!/bin/sh
# Tells the model where it is: what is printed becomes context.
cat >/dev/null
echo "The project is called $(basename "$CLAUDE_PROJECT_DIR")."
