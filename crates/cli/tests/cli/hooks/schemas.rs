//! The schemas of hooks.

use crate::support::Home;

#[test]
fn hook_schemas_name_every_event() {
    let home = Home::new();
    let reported = home.run(&["schema", "hooks"]).ok().json();
    let events = [
        "session_start",
        "user_prompt_submit",
        "pre_user_turn",
        "turn_start",
        "before_llm_call",
        "after_llm_call",
        "tool_input_transform",
        "tool_guard",
        "pre_tool_use",
        "permission_request",
        "tool_response_transform",
        "post_tool_use",
        "turn_end",
        "stop",
        "subagent_stop",
        "on_agent_switch",
        "pre_compact",
        "before_compaction",
        "after_compaction",
        "on_user_input",
        "on_max_iterations",
        "on_error",
        "notification",
        "session_end",
    ];
    for event in events {
        let schemas = &reported["events"][event];
        assert!(schemas["input"]["properties"].is_object(), "{event}");
        assert!(schemas["output"].is_object(), "{event}");
        assert!(
            reported["hooks"]["properties"][event].is_object(),
            "{event}"
        );
    }
    assert_eq!(reported["events"].as_object().unwrap().len(), events.len());
    let agent = home.run(&["schema"]).ok();
    assert_eq!(agent.stdout, home.run(&["schema", "agent"]).ok().stdout);
    assert!(agent.json()["properties"]["nodes"].is_object(), "{agent}");
    home.run(&["schema", "hook"]).fails(2);
}
