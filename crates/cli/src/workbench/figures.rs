//! Statistics of a session's tool calls, as text.

use std::collections::BTreeMap;

use cachalot_tools::cached::{CachedTools, Counters};

use crate::render;
use crate::render::table::{Column, table};
use crate::render::visible::on_one_line;

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
    text += &counters_table(&counters);
    for (name, counters) in &counters {
        for (why, times) in reasons(counters) {
            let calls = render::count(times, "call", "calls");
            text += &format!("{name}: {why} ({calls})\n");
        }
    }
    text.trim_end().to_owned()
}

/// A figure in the table: its name, its value of a tool, and the format of the value.
type Figure = (&'static str, fn(&Counters) -> u64, fn(u64) -> String);

const FIGURES: [Figure; 10] = [
    ("hits", |tool| tool.hits, render::grouped),
    ("misses", |tool| tool.misses, render::grouped),
    ("coalesced", |tool| tool.coalesced, render::grouped),
    (
        "bypassed",
        |tool| tool.bypassed.values().sum(),
        render::grouped,
    ),
    ("evicted", |tool| tool.evicted, render::grouped),
    ("invalidated", |tool| tool.invalidated, render::grouped),
    (
        "stale prevented",
        |tool| tool.stale_prevented,
        render::grouped,
    ),
    ("served", |tool| tool.bytes_served, render::bytes),
    ("not sent again", |tool| tool.bytes_saved, render::bytes),
    ("tokens saved", |tool| tool.tokens_saved, render::grouped),
];

/// The number of figures that are always shown.
const ALWAYS_SHOWN: usize = 2;

/// Formats a row per tool. Other figures that are zero for all tools are left out.
fn counters_table(counters: &BTreeMap<String, Counters>) -> String {
    let happened = |figure: fn(&Counters) -> u64| counters.values().any(|tool| figure(tool) > 0);
    let figures: Vec<Figure> = FIGURES
        .into_iter()
        .enumerate()
        .filter(|(at, (_, figure, _))| *at < ALWAYS_SHOWN || happened(*figure))
        .map(|(_, figure)| figure)
        .collect();
    let names = figures.iter().map(|(name, _, _)| Column::number(*name));
    let columns: Vec<Column> = std::iter::once(Column::text("tool")).chain(names).collect();
    let rows = counters.iter().map(|(name, tool)| {
        let figures = figures
            .iter()
            .map(|(_, figure, written)| written(figure(tool)));
        std::iter::once(on_one_line(name)).chain(figures).collect()
    });
    table(&columns, &rows.collect::<Vec<_>>())
}

fn reasons(counters: &Counters) -> impl Iterator<Item = (String, u64)> {
    let bypassed = counters.bypassed.iter();
    let bypassed = bypassed.map(|(why, times)| (format!("bypassed, because {why}"), *times));
    let not_kept = counters.not_kept.iter();
    bypassed.chain(not_kept.map(|(why, times)| (format!("not kept: {why}"), *times)))
}
