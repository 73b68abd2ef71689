//! Statistics of a session's tool calls, as text.

use std::collections::BTreeMap;

use cachalot_tools::cached::{CachedTools, Counters};

use crate::render;

/// Formats the figures of a session: the number of calls that were answered without running, a line per tool,
/// and the reasons why calls ran without a lookup or why results were not stored.
pub(super) fn figures(tools: &CachedTools, session: &str) -> String {
    let counters = tools.counters(session);
    if counters.is_empty() {
        return "tools: none was called yet".to_owned();
    }
    let stats = tools.cache_stats(session);
    let mut text = format!(
        "tools: {} of {} calls answered without running ({:.0}%)\n",
        stats.hits,
        stats.eligible,
        stats.hit_rate * 100.0
    );
    text += &render::table::columns(&rows(&counters));
    for (name, counters) in &counters {
        for (why, times) in reasons(counters) {
            let calls = render::count(times, "call", "calls");
            text += &format!("{name}: {why} ({calls})\n");
        }
    }
    text.trim_end().to_owned()
}

/// A column of the table: its name, its figure of a tool, and the format of the figure.
type Column = (&'static str, fn(&Counters) -> u64, fn(u64) -> String);

const COLUMNS: [Column; 10] = [
    ("hits", |tool| tool.hits, plain),
    ("misses", |tool| tool.misses, plain),
    ("coalesced", |tool| tool.coalesced, plain),
    ("bypassed", |tool| tool.bypassed.values().sum(), plain),
    ("evicted", |tool| tool.evicted, plain),
    ("invalidated", |tool| tool.invalidated, plain),
    ("stale prevented", |tool| tool.stale_prevented, plain),
    ("served", |tool| tool.bytes_served, render::bytes),
    ("not sent again", |tool| tool.bytes_saved, render::bytes),
    ("tokens saved", |tool| tool.tokens_saved, plain),
];

/// The number of columns that are always shown.
const ALWAYS_SHOWN: usize = 2;

fn plain(figure: u64) -> String {
    figure.to_string()
}

/// Returns a row per tool. Other columns without a figure above zero are left out.
fn rows(counters: &BTreeMap<String, Counters>) -> Vec<Vec<String>> {
    let happened = |figure: fn(&Counters) -> u64| counters.values().any(|tool| figure(tool) > 0);
    let columns: Vec<Column> = COLUMNS
        .into_iter()
        .enumerate()
        .filter(|(at, (_, figure, _))| *at < ALWAYS_SHOWN || happened(*figure))
        .map(|(_, column)| column)
        .collect();
    let names = columns.iter().map(|(name, _, _)| (*name).to_owned());
    let mut rows = vec![std::iter::once("tool".to_owned()).chain(names).collect()];
    rows.extend(counters.iter().map(|(name, tool)| {
        let figures = columns
            .iter()
            .map(|(_, figure, written)| written(figure(tool)));
        std::iter::once(name.clone()).chain(figures).collect()
    }));
    rows
}

fn reasons(counters: &Counters) -> impl Iterator<Item = (String, u64)> {
    let bypassed = counters.bypassed.iter();
    let bypassed = bypassed.map(|(why, times)| (format!("bypassed, because {why}"), *times));
    let not_kept = counters.not_kept.iter();
    bypassed.chain(not_kept.map(|(why, times)| (format!("not kept: {why}"), *times)))
}
