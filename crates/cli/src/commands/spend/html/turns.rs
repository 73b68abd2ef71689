//! The data from which the page draws sessions and their turns.

use std::collections::HashMap;

use cachalot_core::Cost;
use cachalot_prefix::spend::Spending;
use cachalot_prefix::walk::{Session, SessionWalk, Turn, TurnLoss};
use serde::Serialize;
use serde_json::{Value, json};

use crate::command_error::Result;
use crate::commands::spend::report::amount;
use crate::commands::spend::turn_text;
use crate::render::html::{Data, share};
use crate::render::local_time::{time_of_day, to_second};
use crate::render::visible::on_one_line;

/// The maximum number of turns in a report; the sessions with the highest costs come first.
const MAX_TURNS: usize = 100_000;

/// Names that many sessions share, each once.
#[derive(Default, Serialize)]
pub(super) struct Names {
    clients: Indexed,
    projects: Indexed,
    models: Indexed,
}

#[derive(Default)]
struct Indexed {
    names: Vec<String>,
    places: HashMap<String, usize>,
}

impl Indexed {
    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.names.len();
        self.names.push(on_one_line(name));
        self.places.insert(name.to_owned(), place);
        place
    }
}

impl Serialize for Indexed {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        self.names.serialize(serializer)
    }
}

/// The list of sessions, a column each.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Index {
    id: Vec<String>,
    /// Empty for a session without a title.
    title: Vec<String>,
    client: Vec<usize>,
    project: Vec<usize>,
    time: Vec<String>,
    /// The time for sorting, in milliseconds.
    at: Vec<i64>,
    answers: Vec<usize>,
    models: Vec<Vec<usize>>,
    cost: Vec<String>,
    /// The part of the highest cost of a session, in percent.
    share: Vec<u64>,
    lost: Vec<String>,
    /// The cost of what was sent again, for sorting.
    lost_cost: Vec<f64>,
}

/// Returns the data of the list, and of the turns of each session in its order.
///
/// # Errors
/// A value cannot be represented in JSON.
pub(super) fn data(
    sessions: &[(Session<'_>, SessionWalk<'_>)],
    spending: &Spending,
) -> Result<(Names, Index, Vec<Data>)> {
    let mut names = Names::default();
    let mut index = Index::default();
    let mut turns = Vec::new();
    let mut left = MAX_TURNS;
    let costs = sessions
        .iter()
        .map(|(_, walk)| walk.totals.cost.picodollars);
    let highest = costs.max().unwrap_or(0);
    for (session, walk) in sessions {
        let at = walk.turns.iter().find_map(|turn| turn.answer.at);
        let (_, lost) = walk.lost();
        let mut models: Vec<usize> = Vec::new();
        for turn in &walk.turns {
            let model = names.models.place(&turn.answer.model);
            if !models.contains(&model) {
                models.push(model);
            }
        }
        let cost = walk.totals.cost;
        index.id.push(on_one_line(session.id));
        let title = spending.title(session.client, session.id);
        index
            .title
            .push(title.map_or_else(String::new, on_one_line));
        index
            .client
            .push(names.clients.place(&session.client.to_string()));
        index.project.push(names.projects.place(&walk.project));
        index.time.push(at.map_or_else(String::new, |at| {
            let mut time = to_second(at);
            // Seconds tell nothing in a list.
            time.truncate(time.len().saturating_sub(3));
            time
        }));
        index.at.push(at.unwrap_or_default());
        index.answers.push(walk.turns.len());
        index.models.push(models);
        index.cost.push(amount(cost));
        index.share.push(share(cost.picodollars, highest));
        index.lost.push(shown(lost));
        index.lost_cost.push(lost.dollars());
        if walk.turns.len() <= left {
            left -= walk.turns.len();
            let highest = walk.turns.iter().map(|turn| turn.cost.picodollars).max();
            let rows = walk.turns.iter();
            let rows: Vec<Value> = rows
                .map(|turn| row(turn, &mut names.models, highest.unwrap_or(0)))
                .collect();
            turns.push(Data::new(&rows)?);
        } else {
            left = 0;
        }
    }
    Ok((names, index, turns))
}

/// Returns a turn in the order in which the script reads its parts.
fn row(turn: &Turn<'_>, models: &mut Indexed, highest: u64) -> Value {
    let answer = turn.answer;
    let usage = &answer.usage;
    json!([
        answer.at.map_or_else(String::new, time_of_day),
        models.place(&answer.model),
        answer.agent().map(on_one_line),
        amount(turn.cost),
        share(turn.cost.picodollars, highest),
        usage.uncached_input,
        usage.cache_read,
        usage.cache_write(),
        usage.output,
        turn_text::tools(turn),
        turn_text::pause(turn),
        turn.is_cold,
        turn.jump.as_ref().map(turn_text::jump),
        turn.loss.as_ref().map(loss),
    ])
}

fn loss(loss: &TurnLoss<'_>) -> Value {
    let diagnosis = loss.logged.map(|logged| &logged.diagnosis);
    let change = diagnosis.and_then(|diagnosis| diagnosis.change.as_ref());
    let place = diagnosis.and_then(|diagnosis| diagnosis.at.as_ref());
    let cause = diagnosis.and_then(|diagnosis| diagnosis.cause);
    json!({
        "cause": loss.cause,
        "tokens": loss.tokens,
        "cost": loss.cost.map(shown),
        "place": place.map(|place| on_one_line(&place.to_string())),
        "before": change.map(|change| on_one_line(&change.before)),
        "after": change.map(|change| on_one_line(&change.after)),
        "remedy": cause.map(|cause| cause.remedy()),
    })
}

/// Formats an amount; empty if nothing was paid.
fn shown(cost: Cost) -> String {
    if cost.is_zero() {
        String::new()
    } else {
        amount(cost)
    }
}
