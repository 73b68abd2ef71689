//! `cachalot spend SESSION`: one session, answer by answer.

use std::collections::BTreeMap;

use cachalot_core::Cost;
use cachalot_prefix::spend::{PaidAnswer, Spending};
use cachalot_prefix::walk::{Session, SessionWalk, Turn, TurnLoss, sessions};
use serde_json::{Value, json};

use super::report::amount;
use super::turn_text;
use crate::command_error::{CommandError, Result};
use crate::render;
use crate::render::local_time::{day_of, time_of_day};
use crate::render::table::{Column, headline, table};
use crate::render::visible::on_one_line;

/// The maximum number of sessions that are named if a prefix fits several.
const MAX_NAMED: usize = 5;

/// Returns the session with an ID, or the only one whose ID begins with a text.
///
/// # Errors
/// No session fits, or several do.
pub(super) fn find<'a>(spending: &'a Spending, id: &str, sources: &str) -> Result<Session<'a>> {
    let mut fitting = sessions(&spending.answers, &spending.side_requests);
    fitting.retain(|session| session.id.starts_with(id) && !session.id.is_empty());
    if fitting.iter().filter(|session| session.id == id).count() == 1 {
        fitting.retain(|session| session.id == id);
    }
    let shown = on_one_line(id);
    if fitting.len() > 1 {
        let mut names: Vec<_> = fitting.iter().take(MAX_NAMED).map(name).collect();
        if fitting.len() > MAX_NAMED {
            names.push(format!("{} more", fitting.len() - MAX_NAMED));
        }
        return Err(CommandError::failed(format!(
            "`{shown}` is the beginning of {} sessions: {}; write more of the ID",
            fitting.len(),
            names.join(", ")
        )));
    }
    fitting.pop().ok_or_else(|| {
        CommandError::failed(format!(
            "`{shown}` is neither a path nor the beginning of a session's ID in {sources}: `cachalot spend --by session` lists the sessions"
        ))
    })
}

fn name(session: &Session<'_>) -> String {
    format!("{} {}", session.client, on_one_line(session.id))
}

/// A session and its answers, compared with each other.
pub(super) struct SessionReport<'a> {
    pub(super) session: Session<'a>,
    pub(super) title: Option<&'a str>,
    pub(super) walk: SessionWalk<'a>,
}

impl SessionReport<'_> {
    pub(super) fn text(&self) -> String {
        let turns = &self.walk.turns;
        let has_agents = turns.iter().any(|turn| turn.answer.agent().is_some());
        let mut columns = vec![Column::whole("time")];
        if has_agents {
            columns.push(Column::text("sub-agent"));
        }
        columns.extend([
            Column::text("model"),
            Column::number("cost"),
            Column::number("input").optional(),
            Column::number("cache read"),
            Column::number("written"),
            Column::number("output"),
            Column::wrapped("tools"),
            Column::wrapped("what happened"),
        ]);
        let mut day = String::new();
        let mut rows = Vec::new();
        for turn in turns {
            let today = turn.answer.at.map_or_else(String::new, day_of);
            if today != day {
                // The headline has the first day.
                if !day.is_empty() {
                    rows.push(vec![today.clone()]);
                }
                day = today;
            }
            rows.push(row(turn, has_agents));
        }
        let breaks = self.breaks();
        let breaks = if breaks.is_empty() {
            breaks
        } else {
            format!("\nWhat was sent again\n{breaks}")
        };
        format!(
            "{}\n{}{}{breaks}{}",
            headline(&self.headline()),
            table(&columns, &rows),
            self.agents(),
            self.notes()
        )
    }

    fn headline(&self) -> String {
        let Self {
            session,
            title,
            walk,
        } = self;
        let totals = &walk.totals;
        let title = title.map(|title| on_one_line(title) + "\n");
        let mut text = title.unwrap_or_default() + &name(session);
        if !walk.project.is_empty() {
            text += &format!(" in {}", on_one_line(&walk.project));
        }
        let mut times = walk.turns.iter().filter_map(|turn| turn.answer.at);
        if let Some(first) = times.next() {
            let last = times.next_back().unwrap_or(first);
            let (from, to) = (day_of(first), day_of(last));
            let to = if from == to { String::new() } else { to + " " };
            text += &format!(
                "\n{from} {} to {to}{}",
                time_of_day(first),
                time_of_day(last)
            );
        }
        text += &format!(
            "\n{}, {}",
            amount(totals.cost),
            render::count(totals.answers, "answer", "answers")
        );
        if let Some(ratio) = totals.cache_read_ratio() {
            text += &format!(", {:.0} % of input read from cache", ratio * 100.0);
        }
        let (tokens, cost) = walk.lost();
        if tokens > 0 {
            let tokens = render::count(tokens, "token", "tokens");
            text += &format!(", {tokens} sent again ({})", amount(cost));
        }
        text
    }

    /// The cost of each sub-agent.
    fn agents(&self) -> String {
        let mut agents: BTreeMap<&str, (u64, Cost)> = BTreeMap::new();
        for turn in &self.walk.turns {
            if let Some(agent) = turn.answer.agent() {
                let sum = agents.entry(agent).or_default();
                sum.0 += 1;
                sum.1 += turn.cost;
            }
        }
        if agents.is_empty() {
            return String::new();
        }
        let columns = [
            Column::text("sub-agent"),
            Column::number("answers"),
            Column::number("cost"),
        ];
        let rows = agents.iter().map(|(agent, (answers, cost))| {
            vec![on_one_line(agent), render::grouped(*answers), amount(*cost)]
        });
        format!("\n{}", table(&columns, &rows.collect::<Vec<_>>()))
    }

    fn breaks(&self) -> String {
        let losses = self.walk.turns.iter();
        let losses = losses.filter_map(|turn| Some((turn, turn.loss.as_ref()?)));
        losses.map(|(turn, loss)| format_loss(turn, loss)).collect()
    }

    fn notes(&self) -> String {
        let totals = &self.walk.totals;
        let mut notes = Vec::new();
        if !totals.side_requests.is_zero() {
            notes.push(format!(
                "{} of it for side requests (session titles, summaries, hooks), which are in no line.",
                amount(totals.side_requests)
            ));
        }
        if totals.partial > 0 {
            notes.push(format!(
                "At least: the final output of {} is not recorded.",
                render::count(totals.partial, "answer", "answers")
            ));
        }
        for reason in totals.unpriced.keys() {
            notes.push(format!("Without a known price: {}.", on_one_line(reason)));
        }
        notes.push("API-equivalent cost; a subscription is billed differently.".to_owned());
        let notes: String = notes.iter().map(|note| headline(note)).collect();
        format!("\n{notes}")
    }

    pub(super) fn document(&self) -> Value {
        let Self {
            session,
            title,
            walk,
        } = self;
        let totals = &walk.totals;
        let (tokens, cost) = walk.lost();
        json!({
            "client": session.client.to_string(),
            "session": session.id,
            "title": title,
            "project": walk.project,
            "usd": totals.cost.dollars(),
            "unpriced": totals.cost.unpriced,
            "side_requests_usd": totals.side_requests.dollars(),
            "partial": totals.partial,
            "cache_read_ratio": totals.cache_read_ratio(),
            "lost_tokens": tokens,
            "lost_usd": cost.dollars(),
            "turns": walk.turns.iter().map(turn_document).collect::<Vec<_>>(),
        })
    }
}

fn row(turn: &Turn<'_>, has_agents: bool) -> Vec<String> {
    let answer: &PaidAnswer = turn.answer;
    let usage = &answer.usage;
    let mut happened: Vec<String> = turn_text::pause(turn).into_iter().collect();
    if let Some(loss) = &turn.loss {
        let tokens = render::grouped(loss.tokens);
        happened.push(format!("{tokens} sent again: {}", loss.cause));
    }
    if let Some(jump) = &turn.jump {
        happened.push(format!("cost jumped by {}", turn_text::jump(jump)));
    }
    let mut row = vec![answer.at.map_or_else(String::new, time_of_day)];
    if has_agents {
        row.push(answer.agent().map_or_else(String::new, on_one_line));
    }
    row.extend([
        on_one_line(&answer.model),
        amount(turn.cost),
        render::grouped(usage.uncached_input),
        render::grouped(usage.cache_read),
        render::grouped(usage.cache_write()),
        render::grouped(usage.output),
        turn_text::tools(turn),
        happened.join("; "),
    ]);
    row
}

fn format_loss(turn: &Turn<'_>, loss: &TurnLoss<'_>) -> String {
    let time = turn.answer.at.map_or_else(String::new, time_of_day);
    let tokens = render::count(loss.tokens, "token", "tokens");
    let cost = loss.cost.map_or_else(String::new, |cost| {
        format!(", {} more than reading them", amount(cost))
    });
    let mut text = headline(&format!("{time} {}: {tokens}{cost}", loss.cause));
    let Some(diagnosis) = loss.logged.map(|logged| &logged.diagnosis) else {
        return text;
    };
    if let Some(at) = &diagnosis.at {
        text += &format!("   at {}\n", on_one_line(&at.to_string()));
    }
    if let Some(change) = &diagnosis.change {
        text += &turn_text::change(change);
    }
    if let Some(cause) = diagnosis.cause {
        text += &headline(&format!("   {}", cause.remedy()));
    }
    text
}

fn turn_document(turn: &Turn<'_>) -> Value {
    let answer = turn.answer;
    let usage = &answer.usage;
    let details = answer.details.as_ref();
    let loss = turn.loss.as_ref().map(|loss| {
        let diagnosis = loss.logged.map(|logged| &logged.diagnosis);
        let change = diagnosis.and_then(|diagnosis| diagnosis.change.as_ref());
        json!({
            "tokens": loss.tokens,
            "usd": loss.cost.map(Cost::dollars),
            "cause": loss.cause,
            "at": diagnosis.and_then(|diagnosis| diagnosis.at.as_ref()),
            "before": change.map(|change| &change.before),
            "after": change.map(|change| &change.after),
            "remedy": diagnosis.and_then(|diagnosis| Some(diagnosis.cause?.remedy())),
        })
    });
    let jump = turn.jump.as_ref();
    json!({
        "id": details.and_then(|details| details.id.as_deref()),
        "at_ms": answer.at,
        "sub_agent": answer.agent(),
        "model": answer.model,
        "usd": (turn.cost.unpriced == 0).then(|| turn.cost.dollars()),
        "tokens": {
            "input": usage.uncached_input,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write(),
            "output": usage.output,
        },
        "tools": details.map(|details| &details.tools),
        "pause_ms": turn.pause,
        "cache_lifetime_ms": turn.lifetime,
        "loss": loss,
        "jump": jump.map(|jump| json!({"usd": jump.more.dollars(), "cause": jump.cause.name()})),
    })
}
