//! The documentation of causes matches the code.

use std::path::Path;

use cachalot_prefix::diagnosis::LikelyCause;

#[test]
fn every_cause_is_documented_with_its_remedy() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let document = std::fs::read_to_string(docs.join("prompt-cache.md")).unwrap();
    let (_, causes) = document.split_once("\n## Causes and remedies\n").unwrap();
    let mut found: Vec<&str> = causes
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let mut expected: Vec<String> = LikelyCause::ALL
        .iter()
        .map(|cause| format!("| `{}` | {cause} | {} |", cause.code(), cause.remedy()))
        .collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}
