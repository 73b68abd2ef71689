//! Generates the tables of `docs/HOOKS.md`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cachalot_core::config::{Parameter, Table};
use cachalot_hooks::contract::{
    BlockEffect, FailureEffect, Field, INPUT_KEYS, Key, Kind, OUTPUT_KEYS, Order, SpecificOutput,
};
use cachalot_hooks::definition::{GROUP_TABLES, HOOK_TABLES, HOOK_TYPES};
use cachalot_hooks::{CONTRACTS, Contract, Event};

/// Markdown tables of the events, their input and their output.
pub(crate) fn tables() -> String {
    [
        events(),
        rules(),
        inputs_of_all(),
        inputs_of_some(),
        outputs_of_all(),
        outputs_of_some(),
    ]
    .join("\n")
}

/// Markdown tables of the keys of a group and of a hook.
pub(crate) fn key_tables() -> String {
    let mut groups = begin("Keys of a group", &["key", "meaning"]);
    for key in GROUP_TABLES.into_iter().flat_map(documented) {
        row(&mut groups, &[code(key.name), meaning(key)]);
    }
    let mut hooks = begin("Keys of a hook", &["key", "type of hook", "meaning"]);
    for key in HOOK_TABLES.into_iter().flat_map(documented) {
        let of = String::from("all");
        row(&mut hooks, &[code(key.name), of, meaning(key)]);
    }
    for (name, table) in HOOK_TYPES {
        for key in documented(table) {
            row(&mut hooks, &[code(key.name), code(name), meaning(key)]);
        }
    }
    format!("{groups}\n{hooks}")
}

fn meaning(key: &Parameter) -> String {
    let required = if key.required { " Required." } else { "" };
    format!("{}{required}", key.description())
}

fn documented(table: &'static Table) -> impl Iterator<Item = &'static Parameter> {
    table.parameters().filter(|key| key.is_documented())
}

fn events() -> String {
    let mut table = begin("Events", &["event", "fires"]);
    for contract in &CONTRACTS {
        row(
            &mut table,
            &[code(contract.event.name()), contract.fires.to_owned()],
        );
    }
    table
}

fn rules() -> String {
    let columns = [
        "event",
        "by tool",
        "handlers run",
        "a block",
        "a failure",
        "honoured",
    ];
    let mut table = begin("Execution and failures", &columns);
    for contract in &CONTRACTS {
        row(&mut table, &contract_row(contract));
    }
    table
}

fn contract_row(contract: &Contract) -> [String; 6] {
    let by_tool = if contract.tool_matched { "yes" } else { "" };
    let order = match contract.order {
        Order::Parallel => "beside each other",
        Order::Sequential => "one after the other",
    };
    let blocks = match contract.blocks {
        BlockEffect::Nothing => "is a message",
        BlockEffect::Refusal => "forbids",
        BlockEffect::Continue => "in other dialects: the agent continues; otherwise a message",
    };
    let failure = match contract.failure {
        FailureEffect::Warning => "warns",
        FailureEffect::DenialByDefault => "forbids, unless `on_error` is set",
        FailureEffect::Denial => "forbids",
    };
    let honoured = contract.honours.iter().map(|honoured| honoured.key());
    [
        code(contract.event.name()),
        by_tool.to_owned(),
        order.to_owned(),
        blocks.to_owned(),
        failure.to_owned(),
        codes(honoured),
    ]
}

fn inputs_of_all() -> String {
    let mut table = begin("Input of all events", &["key", "value", "meaning"]);
    for key in INPUT_KEYS.iter().filter(|key| is_common(key)) {
        row(&mut table, &of_all(key));
    }
    table
}

fn inputs_of_some() -> String {
    let mut table = begin(
        "Input of some events",
        &["key", "value", "meaning", "events"],
    );
    for key in INPUT_KEYS.iter().filter(|key| !is_common(key)) {
        let is_told = |contract: &Contract| {
            let mut fields = contract.fields.iter();
            fields.any(|field| field.keys().contains(&key.name))
        };
        row(&mut table, &of_some(key, is_told));
    }
    table
}

fn outputs_of_all() -> String {
    let mut table = begin("Output of all events", &["key", "value", "meaning"]);
    for key in OUTPUT_KEYS {
        row(&mut table, &of_all(key));
    }
    table
}

fn outputs_of_some() -> String {
    let title = "Output of some events, in `hook_specific_output`";
    let mut table = begin(title, &["key", "value", "meaning", "events"]);
    for honoured in SpecificOutput::ALL {
        for key in honoured.keys() {
            row(
                &mut table,
                &of_some(key, |contract| contract.honours(honoured)),
            );
        }
    }
    table
}

fn is_common(key: &Key) -> bool {
    Field::COMMON.contains(&key.name)
}

fn of_all(key: &Key) -> [String; 3] {
    [code(key.name), word(key.kind), key.about.to_owned()]
}

fn of_some(key: &Key, is_of: impl Fn(&Contract) -> bool) -> [String; 4] {
    let [name, kind, about] = of_all(key);
    let of = CONTRACTS.iter().filter(|contract| is_of(contract));
    [
        name,
        kind,
        about,
        codes(of.map(|contract| contract.event).map(Event::name)),
    ]
}

fn begin(title: &str, columns: &[&str]) -> String {
    let mut table = format!("### {title}\n\n");
    row(&mut table, columns);
    row(&mut table, &vec!["---"; columns.len()]);
    table
}

fn row<S: AsRef<str>>(table: &mut String, cells: &[S]) {
    for cell in cells {
        // Writing to a string cannot fail.
        let _ = write!(table, "| {} ", cell.as_ref());
    }
    table.push_str("|\n");
}

fn code(word: &str) -> String {
    format!("`{word}`")
}

fn codes<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(code).collect::<Vec<_>>().join(", ")
}

/// A short description of the type of a value.
fn word(kind: Kind) -> String {
    let word = match kind {
        Kind::Text => "text",
        Kind::OneOf(texts) => return format!("`{}`", texts.join("`, `")),
        Kind::Flag => "true or false",
        Kind::Whole => "whole number",
        Kind::Number => "number",
        Kind::Mapping => "mapping",
        Kind::Texts => "mapping of texts",
        Kind::List => "list of mappings",
        Kind::Synthetic => "mapping: `content`, `provenance`, `metadata`, `saved`",
    };
    word.to_owned()
}

#[test]
fn the_tables_contain_every_event_and_key() {
    let tables = tables();
    let events = CONTRACTS.iter().map(|contract| contract.event.name());
    let specific = SpecificOutput::ALL
        .into_iter()
        .flat_map(|what| what.keys().iter());
    let keys = INPUT_KEYS
        .iter()
        .chain(OUTPUT_KEYS)
        .chain(specific)
        .map(|key| key.name);
    for name in events.chain(keys) {
        assert!(tables.contains(&format!("\n| `{name}` | ")), "{name}");
    }
    let columns: BTreeSet<usize> = tables
        .split("### ")
        .flat_map(|table| {
            let rows = table.lines().filter(|line| line.starts_with('|'));
            let widths: BTreeSet<usize> = rows.map(|row| row.matches('|').count()).collect();
            assert!(widths.len() <= 1, "{table}");
            widths
        })
        .collect();
    assert_eq!(columns, BTreeSet::from([3, 4, 5, 7]));
    let guard = "| `tool_guard` | yes | beside each other | forbids | forbids | \
                 `permission_decision`, `metadata` |";
    assert!(tables.contains(guard));
}
