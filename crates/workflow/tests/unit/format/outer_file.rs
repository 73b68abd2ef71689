//! Unit tests of `src/format/outer_file.rs`.

use super::RUN_WIDE_KEYS;

/// Settings that apply to the nodes of one file.
const OF_FILE: [&str; 6] = [
    "name",
    "llm",
    "shell_providers",
    "web",
    "llamaextract",
    "parallel",
];

#[test]
fn every_setting_is_run_wide_or_per_file() {
    let schema = crate::format::schema(&crate::actions::builtin());
    let settings = schema["properties"]["settings"]["properties"].as_object();
    let mut known: Vec<&str> = settings.unwrap().keys().map(String::as_str).collect();
    let mut sorted = [&RUN_WIDE_KEYS[..], &OF_FILE].concat();
    known.sort_unstable();
    sorted.sort_unstable();
    assert_eq!(known, sorted);
}
