//! The running sums of costs that Claude Code writes into its transcripts (`cost-state`), and the requests that are in no
//! other line: session titles, summaries, prompt hooks, searches of the web.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use cachalot_accounting::Terms;
use cachalot_core::Millis;
use cachalot_model::Usage;
use serde::Deserialize;

use super::SpendReader;
use super::answer::{Client, PaidAnswer};
use crate::hash::hash;

/// Usage by model.
type Usages = BTreeMap<Arc<str>, Usage>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CostStateLine {
    start_time: Option<f64>,
    #[serde(default)]
    model_usage: BTreeMap<String, ModelUsage>,
}

/// `cacheCreationInputTokens` is the sum of both lifetimes.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ModelUsage {
    input_tokens: u64,
    output_tokens: u64,
    thinking_tokens: u64,
    cache_read_input_tokens: u64,
    cache_creation_input_tokens: u64,
    #[serde(rename = "cacheCreationEphemeral5mInputTokens")]
    written_5m: u64,
    #[serde(rename = "cacheCreationEphemeral1hInputTokens")]
    written_1h: u64,
    web_search_requests: u64,
}

impl ModelUsage {
    fn usage(&self) -> Usage {
        let split = self.written_5m.saturating_add(self.written_1h);
        Usage {
            uncached_input: self.input_tokens,
            cache_read: self.cache_read_input_tokens,
            cache_write_5m: self.written_5m,
            cache_write_1h: self.written_1h,
            cache_write_other: self.cache_creation_input_tokens.saturating_sub(split),
            output: self.output_tokens,
            reasoning: self.thinking_tokens,
            web_searches: self.web_search_requests,
            ..Usage::default()
        }
    }
}

/// The sum at the end of a run of a session, from its beginning. That of a fork begins with its parent's.
pub(super) struct CostState {
    /// The latest time of a line before it.
    at: Option<Millis>,
    /// The beginning of the session, or of its first parent.
    start: Option<Millis>,
    usages: Usages,
}

impl CostState {
    /// Parses a line; `None` if it is malformed.
    pub(super) fn parse(text: &[u8], at: Option<Millis>, reader: &mut SpendReader) -> Option<Self> {
        let line: CostStateLine = serde_json::from_slice(text).ok()?;
        let mut usages = Usages::new();
        for (model, usage) in &line.model_usage {
            let model = model.split('[').next().unwrap_or(model);
            *usages.entry(reader.name(model)).or_default() += usage.usage();
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it is compared with others, and saturates"
        )]
        let start = line.start_time.map(|start| start as Millis);
        Some(Self { at, start, usages })
    }
}

/// The sums of a session, and what is needed to compare them with its answers.
#[derive(Default)]
pub(super) struct SessionCosts {
    session: Option<Arc<str>>,
    project: Option<Arc<str>>,
    states: Vec<CostState>,
    /// The keys of the answers in the file.
    answers: HashSet<u64>,
    /// The keys of the answers after the last sum.
    later: HashSet<u64>,
    /// The first time after the last sum, from which on it contains no answers of sub-agents.
    ended: Option<Millis>,
    /// The sessions of which the file has copies.
    parents: HashSet<Arc<str>>,
}

impl SessionCosts {
    /// Notes the time of a line, of which `latest` is the latest one before it.
    pub(super) fn goes_on(&mut self, latest: Option<Millis>, at: Option<Millis>) {
        if !self.states.is_empty() && self.ended.is_none() && at > latest {
            self.ended = at;
        }
    }

    /// Notes an answer of the file by its key.
    pub(super) fn has_answer(&mut self, key: u64) {
        if self.answers.insert(key) {
            self.later.insert(key);
        }
    }

    /// Notes that the file has a copy of another session's answer.
    pub(super) fn has_parent(&mut self, session: &Arc<str>) {
        self.parents.insert(Arc::clone(session));
    }

    /// Adds the next sum.
    pub(super) fn add(&mut self, session: Arc<str>, project: Option<Arc<str>>, state: CostState) {
        self.session = Some(session);
        self.project = project;
        self.states.push(state);
        self.later.clear();
        self.ended = None;
    }

    /// Returns the sum of all runs. A sum that is smaller than the one before it began anew.
    fn total(&self) -> Usages {
        let mut total = Usages::new();
        let mut states = self.states.iter().peekable();
        while let Some(state) = states.next() {
            let is_continued = states
                .peek()
                .is_some_and(|next| contains(&next.usages, &state.usages));
            if !is_continued {
                for (model, usage) in &state.usages {
                    *total.entry(Arc::clone(model)).or_default() += *usage;
                }
            }
        }
        total
    }
}

/// The sums of all sessions.
#[derive(Default)]
pub(super) struct CostStates(BTreeMap<Arc<str>, SessionCosts>);

impl CostStates {
    /// Adds the sums of a file. Of several copies, the one with more sums counts.
    pub(super) fn add(&mut self, costs: SessionCosts) {
        let Some(session) = costs.session.clone() else {
            return;
        };
        let known = self.0.get(&session);
        if known.is_none_or(|known| known.states.len() < costs.states.len()) {
            self.0.insert(session, costs);
        }
    }

    /// Returns the requests that the sums contain and that are in no line: one entry per session and model.
    pub(super) fn side_requests(&self, reader: &SpendReader) -> Vec<PaidAnswer> {
        let mut keys: HashMap<usize, u64> = HashMap::new();
        for costs in self.0.values() {
            let places = costs.answers.iter().filter_map(|key| {
                let place = reader.places.get(&hash(key))?;
                Some((*place, *key))
            });
            keys.extend(places);
        }
        let mut own: HashMap<&str, Vec<(&PaidAnswer, Option<u64>)>> = HashMap::new();
        for (place, answer) in reader.answers.iter().enumerate() {
            if answer.client == Client::ClaudeCode && self.0.contains_key(&answer.session) {
                let answers = own.entry(&answer.session).or_default();
                answers.push((answer, keys.get(&place).copied()));
            }
        }
        let mut by_start: HashMap<Millis, Vec<&SessionCosts>> = HashMap::new();
        for costs in self.0.values() {
            if let Some(start) = costs.states.first().and_then(|state| state.start) {
                by_start.entry(start).or_default().push(costs);
            }
        }
        let mut found = Vec::new();
        for (session, costs) in &self.0 {
            let answers = own.remove(&**session).unwrap_or_default();
            let Some(last) = costs.states.last() else {
                continue;
            };
            let first = costs.states.first().and_then(|state| state.start);
            let relatives = first.and_then(|start| by_start.get(&start));
            let relatives = relatives.map(Vec::as_slice).unwrap_or_default();
            let Some(before) = self.before(costs, relatives, &answers, reader) else {
                continue;
            };
            let in_lines = answers.iter().filter(|(answer, key)| match key {
                Some(key) => !costs.later.contains(key),
                // An answer of a sub-agent.
                None => answer
                    .at
                    .zip(costs.ended)
                    .is_none_or(|(at, ended)| at < ended),
            });
            let in_lines = sum(in_lines.map(|(answer, _)| *answer));
            let rest = without(without(costs.total(), &before), &in_lines);
            let geography = answers
                .iter()
                .find_map(|(answer, _)| answer.terms.geography.clone());
            for (model, usage) in rest {
                if usage == Usage::default() {
                    continue;
                }
                let requests = PaidAnswer::new(Client::ClaudeCode, model, last.at, usage);
                found.push(PaidAnswer {
                    project: costs.project.clone().unwrap_or_else(|| "".into()),
                    session: Arc::clone(session),
                    terms: Terms {
                        geography: geography.clone(),
                        ..Terms::default()
                    },
                    ..requests.without_place()
                });
            }
        }
        found
    }

    /// Returns the part of a session's first sum that is of its parent; `None` if that is not known. `relatives` began at
    /// the same time, which forks keep.
    fn before(
        &self,
        costs: &SessionCosts,
        relatives: &[&SessionCosts],
        answers: &[(&PaidAnswer, Option<u64>)],
        reader: &SpendReader,
    ) -> Option<Usages> {
        let first = costs.states.first()?;
        let is_early = |at: Option<Millis>| at.zip(first.at).is_none_or(|(at, end)| at <= end);
        let own = answers.iter().map(|(answer, _)| *answer);
        let own = sum(own.filter(|answer| is_early(answer.at)));
        let named = costs.parents.iter().filter_map(|name| self.0.get(name));
        let relatives = relatives.iter().copied();
        let relatives = relatives.filter(|other| other.session != costs.session);
        let parents: Vec<&SessionCosts> = if costs.parents.is_empty() {
            relatives.collect()
        } else {
            named.collect()
        };
        let states = parents.iter().flat_map(|parent| &parent.states);
        let base = states
            .filter(|state| is_early(state.at) && contains(&first.usages, &state.usages))
            .filter(|state| contains(&without(first.usages.clone(), &state.usages), &own))
            .max_by_key(|state| size(&state.usages));
        match base {
            Some(base) => Some(base.usages.clone()),
            // Without its parent's file, a fork's own part is not known.
            None if !costs.parents.is_empty() => None,
            None => {
                let copied = costs.answers.iter().filter_map(|key| {
                    let place = reader.places.get(&hash(key))?;
                    reader.answers.get(*place)
                });
                let is_other =
                    |answer: &&PaidAnswer| Some(&answer.session) != costs.session.as_ref();
                Some(sum(copied.filter(is_other)))
            }
        }
    }
}

fn sum<'a>(answers: impl Iterator<Item = &'a PaidAnswer>) -> Usages {
    let mut sum = Usages::new();
    for answer in answers {
        *sum.entry(Arc::clone(&answer.model)).or_default() += answer.usage;
    }
    sum
}

fn size(usages: &Usages) -> u64 {
    let sizes = usages.values().map(|usage| {
        let input = usage.total_input();
        input.saturating_add(usage.output)
    });
    sizes.fold(0, u64::saturating_add)
}

/// True if `part` can be a part of `usages`.
fn contains(usages: &Usages, part: &Usages) -> bool {
    part.iter().all(|(model, part)| {
        let usage = usages.get(model).copied().unwrap_or_default();
        usage.total_input() >= part.total_input() && usage.output >= part.output
    })
}

/// Subtracts a part. What it has of models under other names is subtracted from the models that it lacks.
fn without(mut usages: Usages, part: &Usages) -> Usages {
    let mut elsewhere = Usage::default();
    for (model, usage) in part {
        match usages.get_mut(model) {
            Some(rest) => *rest = difference(rest, usage),
            None => elsewhere += *usage,
        }
    }
    for (model, rest) in &mut usages {
        if !part.contains_key(model) {
            let left = difference(rest, &elsewhere);
            elsewhere = difference(&elsewhere, rest);
            *rest = left;
        }
    }
    usages
}

/// Subtracts counts. Writes of an unknown lifetime are subtracted from those of others, too.
fn difference(usage: &Usage, part: &Usage) -> Usage {
    let written = usage.cache_write().saturating_sub(part.cache_write());
    let mut rest = Usage {
        uncached_input: usage.uncached_input.saturating_sub(part.uncached_input),
        cache_read: usage.cache_read.saturating_sub(part.cache_read),
        cache_write_5m: usage.cache_write_5m.saturating_sub(part.cache_write_5m),
        cache_write_1h: usage.cache_write_1h.saturating_sub(part.cache_write_1h),
        cache_write_12h: usage.cache_write_12h.saturating_sub(part.cache_write_12h),
        cache_write_other: usage
            .cache_write_other
            .saturating_sub(part.cache_write_other),
        output: usage.output.saturating_sub(part.output),
        reasoning: usage.reasoning.saturating_sub(part.reasoning),
        web_searches: usage.web_searches.saturating_sub(part.web_searches),
    };
    if rest.cache_write() > written {
        (rest.cache_write_5m, rest.cache_write_1h) = (0, 0);
        (rest.cache_write_12h, rest.cache_write_other) = (0, written);
    }
    rest
}
