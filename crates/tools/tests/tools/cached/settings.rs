//! Keys of a `tools` section.

use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::config::Settings as _;
use cachalot_core::tree::parse;
use cachalot_tools::cached::{RepeatDelivery, ToolCacheScope, ToolCacheSettings};

fn read(text: &str) -> (ToolCacheSettings, Vec<Problem>) {
    let file = parse("agent.yaml", text).unwrap();
    let mut problems = Vec::new();
    let settings =
        ToolCacheSettings::read(file.get("tools").unwrap(), &mut problems).unwrap_or_default();
    (settings, problems)
}

fn codes(text: &str) -> Vec<&'static str> {
    read(text)
        .1
        .into_iter()
        .map(|problem| problem.code)
        .collect()
}

#[test]
fn cache_is_off_by_default() {
    assert_eq!(read("tools: {}"), (ToolCacheSettings::default(), vec![]));
    let settings = ToolCacheSettings::default();
    assert!(!settings.enabled);
    assert_eq!(settings.max_size, 128);
}

#[test]
fn settings_accept_camel_case_and_snake_case() {
    let expected = ToolCacheSettings {
        enabled: true,
        max_size: 64,
        max_bytes: 1_000_000,
        scope: ToolCacheScope::Workspace,
        delivery: RepeatDelivery::Marker,
        error_prefix: Some("Error:".to_owned()),
        ttl: [
            ("web_fetch".to_owned(), Duration::from_secs(600)),
            ("docs".to_owned(), Duration::from_secs(7 * 86_400)),
            ("now".to_owned(), Duration::from_secs(5)),
        ]
        .into(),
    };
    for text in [
        "tools:
  cacheToolResults: true
  cacheToolResultsMaxSize: 64
  cacheToolResultsMaxBytes: 1000000
  cacheToolResultsScope: workspace
  cacheToolResultsDelivery: marker
  cacheToolResultsErrorPrefix: 'Error:'
  cacheToolResultsTtl: {web_fetch: 10m, docs: 7d, now: 5}
",
        "tools:
  cache_tool_results: true
  cache_tool_results_max_size: 64
  cache_tool_results_max_bytes: 1000000
  cache_tool_results_scope: workspace
  cache_tool_results_delivery: marker
  cache_tool_results_error_prefix: 'Error:'
  cache_tool_results_ttl: {web_fetch: 600s, docs: 168h, now: 5s}
",
        r#"{"tools": {"cacheToolResults": true, "cacheToolResultsMaxSize": 64,
            "cacheToolResultsMaxBytes": 1000000, "cacheToolResultsScope": "workspace",
            "cacheToolResultsDelivery": "marker", "cacheToolResultsErrorPrefix": "Error:",
            "cacheToolResultsTtl": {"web_fetch": "10m", "docs": "7d", "now": 5}}}"#,
    ] {
        assert_eq!(read(text), (expected.clone(), vec![]), "{text}");
    }
}

#[test]
fn original_docker_agent_keys_are_accepted() {
    let (settings, problems) =
        read(r#"{"tools":{"cacheToolResults":true,"cacheToolResultsMaxSize":128}}"#);
    assert!(problems.is_empty());
    assert_eq!(
        settings,
        ToolCacheSettings {
            enabled: true,
            ..ToolCacheSettings::default()
        }
    );
}

#[test]
fn problems_of_settings_are_reported() {
    for (text, code) in [
        ("cacheToolResult: true", "unknown-key"),
        ("cacheToolResults: yes", "wrong-type"),
        ("cacheToolResultsMaxSize: 0", "out-of-range"),
        ("cacheToolResultsMaxSize: -1", "out-of-range"),
        ("cacheToolResultsMaxSize: many", "wrong-type"),
        ("cacheToolResultsMaxBytes: 0", "out-of-range"),
        ("cacheToolResultsScope: everybody", "bad-value"),
        ("cacheToolResultsScope: global", "bad-value"),
        ("cacheToolResultsDelivery: none", "bad-value"),
        ("cacheToolResultsTtl: 10m", "wrong-type"),
        (
            "cacheToolResultsTtl: {web_fetch: 10}\n  cacheToolResultsTTL: {}",
            "unknown-key",
        ),
        ("cacheToolResultsTtl: {web_fetch: 10 minutes}", "bad-value"),
        ("cacheToolResultsTtl: {web_fetch: m}", "bad-value"),
        ("cacheToolResultsTtl: {web_fetch: 0s}", "out-of-range"),
        ("cacheToolResultsTtl: {web_fetch: -1}", "out-of-range"),
        (
            "cacheToolResultsTtl: {web_fetch: 99999999999999999999d}",
            "bad-value",
        ),
        (
            "cacheToolResultsTtl: {web_fetch: 999999999999999999d}",
            "bad-value",
        ),
        (
            "cacheToolResults: true\n  cache_tool_results: false",
            "two-spellings",
        ),
    ] {
        assert_eq!(codes(&format!("tools:\n  {text}\n")), [code], "{text}");
    }
}

#[test]
fn misspelled_key_gets_a_suggestion() {
    let (_, problems) = read("tools:\n  cacheToolResult: true\n");
    let help = problems[0].help.clone().unwrap_or_default();
    assert!(help.contains("cacheToolResults"), "{help}");
}
