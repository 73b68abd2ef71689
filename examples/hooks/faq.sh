#!/bin/sh
# Answers frequent questions on `pre_user_turn`: no model is asked. Says nothing to all others.
asked=$(sed -n 's/.*"prompt" *: *"\(\([^"\\]\|\\.\)*\)".*/\1/p' | tr '[:upper:]' '[:lower:]')
case $asked in
*"opening hours"* | *"when are you open"*)
    answer="We are open from 9 to 17 o'clock, Monday to Friday." ;;
*refund* | *"money back"*)
    answer="Send it back within 30 days, and you have your money within a week." ;;
*)
    exit 0 ;;
esac
printf '{"hook_specific_output": {"synthetic_response": {"content": "%s", "provenance": "the FAQ"}}}\n' \
    "$answer"
