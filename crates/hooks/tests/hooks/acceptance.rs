//! The acceptance criteria of the request to move `cache_response` out of the runtime, each as a test
//! named after it; what concerns the runtime alone is tested with the runtime.

use std::path::{Path, PathBuf};

use cachalot_hooks::{Builtin as _, Builtins, Event};

use crate::answering::{Came, Turn, world};

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
fn cache_response_lives_among_the_builtins_and_not_in_the_runtime() {
    let world = world("{enabled: true}");
    assert_eq!(world.builtin.name(), "cache_response");
    assert_eq!(world.builtin.sections(), ["cache"]);
    for (path, text) in sources("agent") {
        assert!(!text.contains("cache_response"), "{}", path.display());
    }
}

#[tokio::test]
async fn a_narrow_lookup_is_handed_over_at_registration_and_cache_response_consumes_it() {
    let world = world("{enabled: true}");
    let turn = Turn::saying("?");
    assert!(world.keeps(turn.clone(), "so").await);
    // What the lookup says of the agent decides what is found.
    world.agent("root").becomes(Some("another instruction"));
    assert!(!world.ask(turn, "so").await.is_replay());
}

#[test]
fn apply_cache_default_is_gone_the_builtin_adds_itself() {
    let on = world("{enabled: true}");
    let injected = on.builtin.inject(&*on.agent("root"));
    let events: Vec<Event> = injected.iter().map(|injection| injection.event).collect();
    assert_eq!(events, [Event::PreUserTurn, Event::Stop, Event::TurnEnd]);
    let off = world("{enabled: false}");
    assert!(off.builtin.inject(&*off.agent("root")).is_empty());
}

#[tokio::test]
async fn stretch_the_replay_is_a_synthetic_response_of_a_hook() {
    let world = world("{enabled: true}");
    let first = world.numbered(Turn::saying("?"));
    world.begin(&first).await;
    world.stop(&first, "so").await;
    world.end(&first).await;
    let again = world.numbered(Turn::saying("?"));
    let output = world.begin(&again).await;
    assert_eq!(output.block, None);
    assert_eq!(output.synthetic.unwrap().content, "so");
}

#[tokio::test]
async fn the_cache_builtin_works_without_depending_on_the_runtime() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    assert!(!manifest.contains("cachalot-agent"), "hooks know no agent");
    let world = world("{enabled: true}");
    assert!(matches!(
        world.ask(Turn::saying("?"), "so").await,
        Came::Ran
    ));
    assert_eq!(
        world.ask(Turn::saying("?"), "").await.replayed().content,
        "so"
    );
}

#[test]
fn it_can_be_registered_once_and_its_name_and_section_are_taken() {
    let (one, other) = (world("{}"), world("{}"));
    let mut builtins = Builtins::default();
    builtins.register(std::sync::Arc::new(one.builtin)).unwrap();
    assert_eq!(builtins.owner("cache").unwrap().name(), "cache_response");
    let again = builtins.register(std::sync::Arc::new(other.builtin));
    assert!(again.unwrap_err().contains("`cache_response`"));
}
