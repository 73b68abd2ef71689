//! The acceptance criteria of the request to move `cache_response` out of the runtime, each as a test
//! named after it; what concerns the runtime alone is tested with the runtime.

use std::path::{Path, PathBuf};

use cachalot_hooks::{Builtin as _, Builtins, Event};

use crate::response_cache_fixture::{Turn, TurnResult, fixture};

fn sources(of: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(of)
        .join("src");
    let mut found = Vec::new();
    let mut directories = vec![root];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found
}

#[test]
fn cache_response_is_a_builtin_and_not_part_of_the_runtime() {
    let fixture = fixture("{enabled: true}");
    assert_eq!(fixture.builtin.name(), "cache_response");
    assert_eq!(fixture.builtin.sections(), ["cache"]);
    for (path, text) in sources("agent") {
        assert!(!text.contains("cache_response"), "{}", path.display());
    }
}

#[tokio::test]
async fn agent_lookup_is_passed_at_registration_and_used_by_cache_response() {
    let fixture = fixture("{enabled: true}");
    let turn = Turn::saying("?");
    assert!(fixture.keeps(turn.clone(), "so").await);
    // What the lookup says of the agent decides what is found.
    fixture.agent("root").becomes(Some("another instruction"));
    assert!(!fixture.ask(turn, "so").await.is_replay());
}

#[test]
fn cache_response_injects_itself_instead_of_apply_cache_default() {
    let on = fixture("{enabled: true}");
    let injected = on.builtin.inject(&*on.agent("root"));
    let events: Vec<Event> = injected.iter().map(|injection| injection.event).collect();
    assert_eq!(events, [Event::PreUserTurn, Event::Stop, Event::TurnEnd]);
    let off = fixture("{enabled: false}");
    assert!(off.builtin.inject(&*off.agent("root")).is_empty());
}

#[tokio::test]
async fn stretch_replay_is_a_synthetic_response_of_a_hook() {
    let fixture = fixture("{enabled: true}");
    let first = fixture.numbered(Turn::saying("?"));
    fixture.begin(&first).await;
    fixture.stop(&first, "so").await;
    fixture.end(&first).await;
    let again = fixture.numbered(Turn::saying("?"));
    let output = fixture.begin(&again).await;
    assert_eq!(output.block, None);
    assert_eq!(output.synthetic.unwrap().content, "so");
}

#[tokio::test]
async fn the_cache_builtin_works_without_depending_on_the_runtime() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    assert!(!manifest.contains("cachalot-agent"), "hooks know no agent");
    let fixture = fixture("{enabled: true}");
    assert!(matches!(
        fixture.ask(Turn::saying("?"), "so").await,
        TurnResult::Ran
    ));
    assert_eq!(
        fixture.ask(Turn::saying("?"), "").await.replayed().content,
        "so"
    );
}

#[test]
fn cache_response_registers_once_and_owns_its_section() {
    let (one, other) = (fixture("{}"), fixture("{}"));
    let mut builtins = Builtins::default();
    builtins.register(std::sync::Arc::new(one.builtin)).unwrap();
    assert_eq!(builtins.owner("cache").unwrap().name(), "cache_response");
    let again = builtins.register(std::sync::Arc::new(other.builtin));
    assert!(again.unwrap_err().to_string().contains("`cache_response`"));
}
