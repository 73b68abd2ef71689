//! Unit tests of `src/provider/server_tools.rs`.

use serde_json::json;

use super::*;

#[test]
fn options_that_may_run_tools_are_recognized() {
    for (name, value) in [
        ("mcp_servers", json!([{"type": "url", "url": "https://a"}])),
        ("web_search_options", json!({})),
        ("container", json!({"skills": []})),
        ("container", json!("container_1")),
        (
            "tools",
            json!([{"type": "web_search_20260318", "name": "web_search"}]),
        ),
        (
            "tools",
            json!([{"type": "code_interpreter", "container": "auto"}]),
        ),
        ("prompt", json!({"id": "pmpt_1"})),
        ("plugins", json!([{"id": "web"}])),
        ("search_parameters", json!({"mode": "on"})),
        ("enable_search", json!(true)),
        ("extra_body", json!({"google": {}})),
        ("data_sources", json!([{"type": "azure_search"}])),
        ("something_new", json!("auto")),
        ("models", json!(["a", "b:online"])),
    ] {
        assert!(may_run_tools(name, &value), "{name}: {value}");
    }
    for (name, value) in [
        ("seed", json!(1)),
        ("repetition_penalty", json!(1.1)),
        ("user", json!("ada")),
        ("metadata", json!({"a": "b"})),
        ("store", json!(true)),
        ("include", json!(["reasoning.encrypted_content"])),
        ("thinking", json!({"type": "adaptive"})),
        ("mcp_servers", json!([])),
        ("web_search_options", json!(null)),
        ("enable_search", json!(false)),
        ("models", json!(["a", "b"])),
    ] {
        assert!(!may_run_tools(name, &value), "{name}: {value}");
    }
}
