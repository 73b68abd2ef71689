//! What became of the tool calls of a session, in words.

use std::collections::BTreeMap;

use cachalot_tools::cached::{CachedTools, Counters};

use crate::render;

/// The figures of a session: how many calls were answered without running, and a line per tool with
/// the reasons why calls ran, or what they gave was not kept.
pub(super) fn figures(tools: &CachedTools, session: &str) -> String {
    let counters = tools.counters(session);
    if counters.is_empty() {
        return "no tool was called yet".to_owned();
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
            text += &format!("{name}: {why}, {}\n", render::count(times, "call", "calls"));
        }
    }
    let saved: u64 = counters.values().map(|one| one.tokens_saved).sum();
    if saved > 0 {
        text += &format!("about {saved} tokens were not sent again\n");
    }
    text.trim_end().to_owned()
}

fn rows(counters: &BTreeMap<String, Counters>) -> Vec<Vec<String>> {
    let head = [
        "tool",
        "hits",
        "coalesced",
        "ran",
        "outdated",
        "evicted",
        "served",
    ];
    let mut rows = vec![head.map(ToOwned::to_owned).to_vec()];
    for (name, counters) in counters {
        let bypassed: u64 = counters.bypassed.values().sum();
        rows.push(vec![
            name.clone(),
            counters.hits.to_string(),
            counters.coalesced.to_string(),
            (counters.misses + bypassed).to_string(),
            counters.stale_prevented.to_string(),
            counters.evicted.to_string(),
            render::bytes(counters.bytes_served),
        ]);
    }
    rows
}

fn reasons(counters: &Counters) -> impl Iterator<Item = (String, u64)> {
    let bypassed = counters.bypassed.iter();
    let bypassed = bypassed.map(|(why, times)| (format!("ran, because {why}"), *times));
    let not_kept = counters.not_kept.iter();
    bypassed.chain(not_kept.map(|(why, times)| (format!("not kept: {why}"), *times)))
}
