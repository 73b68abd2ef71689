//! Files of hooks, any text, in every format and dialect: hooks or problems with places in the text, and
//! no panic. A file that is wrong loses no hook in silence: what is read as another runtime's is the same
//! whether the dialect was named or recognized.
//!
//! The first byte picks the format, the second the dialect.

use std::path::Path;

use cachalot_core::Problem;
use cachalot_hooks::{Builtins, Dialect, source};

const FILES: [&str; 6] = [
    "/nowhere/hooks.json",
    "/nowhere/hooks.yaml",
    "/nowhere/config.toml",
    "/nowhere/.claude/settings.json",
    "/nowhere/.codex/config.toml",
    "/nowhere/.gemini/settings.json",
];

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let [file, dialect, text @ ..] = bytes else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let path = Path::new(FILES[usize::from(*file) % FILES.len()]);
    let named = [None]
        .into_iter()
        .chain(Dialect::ALL.map(Some))
        .nth(usize::from(*dialect) % (Dialect::ALL.len() + 1))
        .flatten();
    let builtins = Builtins::default();
    let read = |dialect| {
        let mut problems = Vec::new();
        let read = source::read_text(path, text, dialect, &builtins, &mut problems);
        (read, problems)
    };
    let (found, problems) = read(named);
    problems
        .iter()
        .chain(&found.warnings)
        .for_each(|problem| check_place(text, problem));
    for entry in &found.entries {
        assert!(!entry.definition.title().is_empty());
        assert!(!entry.definition.timeout.is_zero());
    }
    if let (None, Some(first)) = (named, found.entries.first())
        && found
            .entries
            .iter()
            .all(|entry| entry.dialect == first.dialect)
        && first.dialect != Dialect::DockerAgent
        && !text.contains("dialect")
    {
        let (again, wrong) = read(Some(first.dialect));
        assert_eq!(again.entries.len(), found.entries.len());
        assert_eq!(wrong.len(), problems.len());
    }
}

fn check_place(text: &str, problem: &Problem) {
    assert!(!problem.message.is_empty());
    if let Some(place) = &problem.place {
        assert!(
            text.get(place.start..place.start + place.len).is_some(),
            "{place}"
        );
        assert!(place.line >= 1 && place.column >= 1);
    }
}
