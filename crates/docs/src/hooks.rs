//! Tables of hooks: keys, events, input, output and builtins.

use std::collections::BTreeMap;
use std::sync::Arc;

use cachalot_core::config::{Parameter, Table};
use cachalot_core::{ManualClock, SecretSet};
use cachalot_hooks::builtin::BuiltinDependencies;
use cachalot_hooks::builtin::cache_response::{CacheResponse, FlatFileError, StoreOpener};
use cachalot_hooks::contract::{
    BlockEffect, FailureEffect, Field, INPUT_KEYS, Key, Kind, OUTPUT_KEYS, Order, SpecificOutput,
};
use cachalot_hooks::definition::{GROUP_TABLES, HOOK_TABLES, HOOK_TYPES};
use cachalot_hooks::{Builtins, CONTRACTS, Contract, Event};
use cachalot_storage::{HttpClient, HttpOptions};

use crate::markdown::{code, codes, row};

/// Returns tables of the events, their input and their output.
pub(crate) fn tables() -> String {
    [
        events(),
        inputs_of_all(),
        inputs_of_some(),
        outputs_of_all(),
        outputs_of_some(),
    ]
    .join("\n")
}

/// Returns tables of the keys of a group and of a hook.
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

/// Returns a table of all builtins, in the order in which the program registers them.
pub(crate) fn builtins() -> String {
    let Some(builtins) = all_builtins() else {
        return String::new();
    };
    let mut table = "| builtin | events | what it does |\n|---|---|---|\n".to_owned();
    for builtin in builtins.iter() {
        let events = match builtin.events() {
            all if all.len() == Event::all().count() => "all".to_owned(),
            some => codes(some.iter().map(|event| event.name())),
        };
        row(
            &mut table,
            &[code(builtin.name()), events, builtin.about().to_owned()],
        );
    }
    table
}

fn all_builtins() -> Option<Builtins> {
    let clock = Arc::new(ManualClock::at(0));
    let secret_set = Arc::new(SecretSet::empty());
    let opener: StoreOpener = Arc::new(|_| Err(FlatFileError("nothing is kept here".to_owned())));
    let mut builtins = Builtins::standard(&BuiltinDependencies {
        lookup: Arc::new(()),
        clock: clock.clone(),
        http: HttpClient::new(HttpOptions::default()).ok()?,
        secret_set: Arc::clone(&secret_set),
        environment: Arc::new(BTreeMap::new()),
    });
    let cache_response = CacheResponse::new(Arc::new(()), opener, clock, secret_set);
    builtins.register(Arc::new(cache_response)).ok()?;
    Some(builtins)
}

fn meaning(key: &Parameter) -> String {
    let required = if key.required { " Required." } else { "" };
    format!("{}{required}", key.description())
}

fn documented(table: &'static Table) -> impl Iterator<Item = &'static Parameter> {
    table.parameters().filter(|key| key.is_documented())
}

/// Returns the table of events. Cells with the most common value are empty, and a sentence says what that is.
fn events() -> String {
    let columns = ["event", "fires", "a block", "a failure", "honoured output"];
    let mut table = begin("Events", &columns);
    for contract in &CONTRACTS {
        row(&mut table, &contract_row(contract));
    }
    let named = |is_meant: fn(&&Contract) -> bool| {
        let meant = CONTRACTS.iter().filter(is_meant);
        codes(meant.map(|contract| contract.event.name()))
    };
    let by_tool = named(|contract| contract.tool_matched);
    let sequential = named(|contract| contract.order == Order::Sequential);
    format!(
        "{table}\nWhere a cell is empty, a block is a message for the user, and a failure a warning. Events of tools \
         (with `matcher`): {by_tool}. One after the other run the handlers of {sequential}; those of other events run in \
         parallel.\n"
    )
}

fn contract_row(contract: &Contract) -> [String; 5] {
    let blocks = match contract.blocks {
        BlockEffect::Nothing => "",
        BlockEffect::Refusal => "forbids",
        BlockEffect::Continue => "in other dialects, the agent continues",
    };
    let failure = match contract.failure {
        FailureEffect::Warning => "",
        FailureEffect::DenialByDefault => "forbids, unless `on_error` is set",
        FailureEffect::Denial => "forbids",
    };
    let honoured = contract.honours.iter().map(|honoured| honoured.key());
    [
        code(contract.event.name()),
        contract.fires.to_owned(),
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
    let mut rows = Vec::new();
    for key in INPUT_KEYS.iter().filter(|key| !is_common(key)) {
        let has_key = |contract: &Contract| {
            let mut fields = contract.fields.iter();
            fields.any(|field| field.keys().contains(&key.name))
        };
        rows.push(of_some(key, has_key));
    }
    by_events("Input of some events", rows)
}

fn outputs_of_all() -> String {
    let mut table = begin("Output of all events", &["key", "value", "meaning"]);
    for key in OUTPUT_KEYS {
        row(&mut table, &of_all(key));
    }
    table
}

fn outputs_of_some() -> String {
    let mut rows = Vec::new();
    for honoured in SpecificOutput::ALL {
        for key in honoured.keys() {
            rows.push(of_some(key, |contract| contract.honours(honoured)));
        }
    }
    by_events("Output of some events, in `hook_specific_output`", rows)
}

/// Returns a table whose rows have their events in the last cell. Rows with the same events follow each other, and only
/// the first has them.
fn by_events(title: &str, mut rows: Vec<[String; 4]>) -> String {
    let mut table = begin(title, &["key", "value", "meaning", "events"]);
    while !rows.is_empty() {
        let events = rows[0][3].clone();
        let (same, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row[3] == events);
        rows = others;
        for (index, mut cells) in same.into_iter().enumerate() {
            if index > 0 {
                cells[3] = "as above".to_owned();
            }
            row(&mut table, &cells);
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
    let is_of_tools = CONTRACTS
        .iter()
        .all(|contract| is_of(contract) == contract.tool_matched);
    let events = if is_of_tools {
        "those of tools".to_owned()
    } else {
        let of = CONTRACTS.iter().filter(|contract| is_of(contract));
        codes(of.map(|contract| contract.event.name()))
    };
    [name, kind, about, events]
}

fn begin(title: &str, columns: &[&str]) -> String {
    let mut table = format!("### {title}\n\n");
    row(&mut table, columns);
    table += &format!("|{}\n", "---|".repeat(columns.len()));
    table
}

/// Returns a short description of the type of a value.
fn word(kind: Kind) -> String {
    let word = match kind {
        Kind::Text => "text",
        Kind::OneOf(texts) => return codes(texts.iter().copied()),
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

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
        assert_eq!(columns, BTreeSet::from([4, 5, 6]));
        assert!(tables.contains(" | forbids | forbids | `permission_decision`, `metadata` |\n"));
    }

    #[test]
    fn every_builtin_has_a_row() {
        let builtins = all_builtins().map_or(0, |builtins| builtins.iter().count());
        assert!(builtins > 10, "{builtins}");
        assert_eq!(super::builtins().lines().count(), builtins + 2);
    }
}
