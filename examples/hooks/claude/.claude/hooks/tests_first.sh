#!/bin/sh
# Sends the agent back once, unless its answer speaks of tests.
told=$(cat)
case $told in
*'"stop_hook_active":true'* | *'"stop_hook_active": true'*) exit 0 ;;
*'"last_assistant_message":"'*tests*) exit 0 ;;
esac
echo '{"decision": "block", "reason": "run the tests before you stop"}'
