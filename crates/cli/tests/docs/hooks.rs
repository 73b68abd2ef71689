//! What is said of hooks is what the program knows of them: the tables are its own, and there is an
//! example that was tried of each event and of each builtin.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use cachalot_core::{ManualClock, SecretSet};
use cachalot_hooks::builtin::BuiltinDependencies;
use cachalot_hooks::builtin::cache_response::{CacheResponse, FlatFileError, StoreOpener};
use cachalot_hooks::{Builtins, Dialect, Event};
use cachalot_storage::{HttpClient, HttpOptions};

use crate::blocks::{self, Block, Language, Marker};
use crate::coverage::section;
use crate::files;
use crate::hook_tables::{key_tables, tables};

const DOCUMENT: &str = "docs/HOOKS.md";

/// The text between the marks of a name.
fn between<'a>(text: &'a str, name: &str) -> &'a str {
    let mark = |at: &str| format!("<!-- {name}: {at} -->\n");
    let (begin, end) = (mark("begin"), mark("end"));
    let (_, behind) = text
        .split_once(&begin)
        .unwrap_or_else(|| panic!("{DOCUMENT} has no `{begin}`"));
    let (inside, _) = behind
        .split_once(&end)
        .unwrap_or_else(|| panic!("{DOCUMENT} has no `{end}`"));
    inside
}

/// All builtins, in the order in which the program registers them.
fn builtins() -> Builtins {
    let clock = Arc::new(ManualClock::at(0));
    let secret_set = Arc::new(SecretSet::empty());
    let opener: StoreOpener = Arc::new(|_| Err(FlatFileError("nothing is kept here".to_owned())));
    let mut builtins = Builtins::standard(&BuiltinDependencies {
        lookup: Arc::new(()),
        clock: clock.clone(),
        http: HttpClient::new(HttpOptions::default()).unwrap(),
        secret_set: Arc::clone(&secret_set),
        environment: Arc::new(BTreeMap::new()),
    });
    let cache_response = CacheResponse::new(Arc::new(()), opener, clock, secret_set);
    builtins.register(Arc::new(cache_response)).unwrap();
    builtins
}

/// A table of all builtins.
fn table(builtins: &Builtins) -> String {
    let mut table = "| builtin | events | what it does |\n|---|---|---|\n".to_owned();
    for builtin in builtins.iter() {
        let events = match builtin.events() {
            all if all.len() == Event::all().count() => "all".to_owned(),
            some => {
                let names: Vec<String> = some.iter().map(|event| format!("`{event}`")).collect();
                names.join(", ")
            }
        };
        let _ = writeln!(
            table,
            "| [`{name}`](#{name}) | {events} | {} |",
            builtin.about(),
            name = builtin.name()
        );
    }
    table
}

/// The blocks under the heading that names something in code.
fn blocks_of(text: &str, name: &str) -> Vec<Block> {
    blocks::read(DOCUMENT, section(text, &format!("### `{name}`")))
}

/// Returns whether such a checked block exists.
fn has(blocks: &[Block], language: Language, holds: impl Fn(&str) -> bool) -> bool {
    blocks.iter().any(|block| {
        block.language == language
            && block.marker(Marker::NoRun).is_none()
            && block.marker(Marker::Wrong).is_none()
            && holds(&block.text)
    })
}

#[test]
fn documented_hook_tables_equal_the_declarations() {
    let text = files::text(DOCUMENT);
    let builtins = builtins();
    let right = [
        ("keys", key_tables()),
        ("tables", tables()),
        ("builtins", table(&builtins)),
    ];
    let wrong = right
        .iter()
        .filter(|(name, right)| between(&text, name) != right);
    let wrong: Vec<String> = wrong
        .map(|(name, right)| format!("between the marks `{name}` there must be\n{right}"))
        .collect();
    assert!(wrong.is_empty(), "{DOCUMENT}: {}", wrong.join("\n"));
}

#[test]
fn every_event_has_a_tested_example() {
    let text = files::text(DOCUMENT);
    let examples = section(&text, "## Events, one by one");
    let mut problems = Vec::new();
    for event in Event::all() {
        let blocks = blocks_of(examples, event.name());
        let (key, command) = (format!("  {event}:"), format!("hooks test {event} "));
        if !has(&blocks, Language::Yaml, |text| text.contains(&key)) {
            problems.push(format!("`{event}`: no YAML names it"));
        }
        if !has(&blocks, Language::Console, |text| text.contains(&command)) {
            problems.push(format!("`{event}`: no command tries it"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_builtin_has_a_tested_example() {
    let text = files::text(DOCUMENT);
    let examples = section(&text, "## Builtins");
    let mut problems = Vec::new();
    for builtin in builtins().iter() {
        let name = builtin.name();
        let blocks = blocks_of(examples, name);
        let is_named = |text: &str| {
            let sections = builtin.sections().iter();
            let mut keys = sections.map(|section| format!("{section}:"));
            text.contains(&format!("command: {name}")) || keys.any(|key| text.contains(&key))
        };
        // Of what all agents have, there is nothing to be said.
        let is_added = builtin.about().contains("All agents have it");
        if !has(&blocks, Language::Yaml, |text| is_added || is_named(text)) {
            problems.push(format!("`{name}`: no YAML names it"));
        }
        let shows = |text: &str| text.contains(&format!("\n{name} "));
        if !has(&blocks, Language::Console, shows) {
            problems.push(format!("`{name}`: no command tries it"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_dialect_name_of_an_event_is_documented() {
    let text = files::text(DOCUMENT);
    let dialects = section(&text, "## Dialects");
    let mut problems = Vec::new();
    for dialect in Dialect::ALL {
        let names = Event::all().map(|event| (event, dialect.event_name(event)));
        for (event, name) in names.filter(|(event, name)| event.name() != *name) {
            let rows = dialects.lines().filter(|line| line.starts_with("| "));
            let mut rows = rows.filter(|row| row.contains(&format!("`{event}`")));
            if !rows.any(|row| row.contains(&format!("`{name}`"))) {
                problems.push(format!("{dialect}: `{event}` is called `{name}`"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
