//! Costs of answered requests under other policies: other lifetimes of the provider's cache, renewals of cached prefixes,
//! and earlier summaries.
//!
//! The usage of each answer is as its provider reported it; nothing is simulated but the difference that a policy makes.
//! Tokens count as saved only if a request wrote them again, the pause before it outlasted the lifetime of the cache, and
//! nothing else explains it: no other model, no summary, no shorter conversation. What a policy costs is counted for all
//! requests, also where it saves nothing: renewals in every pause and after the end of every conversation.
//!
//! | policy | cost of a request |
//! |---|---|
//! | one hour, twelve hours | its writes at the price of that lifetime; tokens lost in a pause that it outlasts are read |
//! | five minutes | writes of an hour at the price of five minutes; after a longer pause, what it read is written |
//! | keep alive | renewals in the pause before it; tokens lost in the pause are read if the last renewal outlasts it |
//! | compaction | summaries, and shorter requests after them: an estimate, because other content leads to other requests |
//! | sub-agents on another model | the same tokens at the price of that model: an estimate |
//! | same tools, same model | what a change of them wrote again within the lifetime of the cache is read |
//!
//! A renewal sends the previous request again, with one token of output, when a tenth of the lifetime is left. After the
//! last request of a conversation, renewals count up to the newest record of the input, or up to the end of the time of
//! which all requests are known ([`WhatIf::is_complete_until`]): later requests may have continued it.

mod compaction;
mod comparison;
mod lifetime;
mod log_order;
mod other_lifetime;
mod outcome;
mod policy;
mod pricing;
mod renewal;
mod request;
mod sub_agents;
#[cfg(test)]
mod tests;
mod unchanged;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use cachalot_accounting::Rules;
use cachalot_core::Millis;
use cachalot_model::{Catalog, Usage};

use crate::log::LoggedRequest;
use crate::spend::{AnswerPlace, Client, LossCause, PaidAnswer};
use log_order::LogOrder;
use pricing::Pricing;
use request::{AnsweredRequest, Linked};

pub use comparison::{Comparison, Group, Row, is_worthwhile};
pub use lifetime::Provider;
pub use policy::{COMPACT_AT, Change, Family, KEEP_ALIVE, Policy, PolicyKind, SUMMARY_TOKENS};

/// The program that sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sender {
    /// A program that leaves transcripts.
    Program(Client),
    /// The client of a request log, which names none.
    Log,
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(client) => client.fmt(f),
            Self::Log => f.write_str("request log"),
        }
    }
}

/// Reason for answers without a time.
const NO_TIME: &str = "the time is not recorded";

/// Reason for answers of which the one before is not known.
const NO_PLACE: &str = "the conversation is not recorded";

/// Reason for requests without a usage.
const NO_USAGE: &str = "the answer has no token counts";

/// Collects answered requests, and compares policies for them. Memory grows with their number.
#[derive(Default)]
pub struct WhatIf {
    answers: Vec<(Sender, PaidAnswer)>,
    log_order: LogOrder,
    /// The number of requests that cannot be compared, by reason.
    left_out: BTreeMap<String, u64>,
    /// The end of the time of which all requests are known.
    end: Option<Millis>,
}

impl WhatIf {
    /// Adds an answer of a transcript, or of a session of this program.
    pub fn add_answer(&mut self, answer: PaidAnswer) {
        self.answers.push((Sender::Program(answer.client), answer));
    }

    /// Adds a request of a log. Requests are added in the order of their times. A failed one has cost nothing.
    pub fn add_request(&mut self, logged: &LoggedRequest) {
        if logged.failed {
            return;
        }
        match logged.usage {
            Some(usage) => {
                let place = self.log_order.place(&logged.request);
                let model = logged.request.model.as_str().into();
                // The sender counts, not the client of the answer.
                let answer = PaidAnswer::new(Client::Cachalot, model, logged.at, usage);
                let answer = PaidAnswer { place, ..answer };
                self.answers.push((Sender::Log, answer));
            }
            None => self.leave_out(NO_USAGE.to_owned()),
        }
    }

    /// Sets the end of the time of which all requests are known, if it is later than the newest record: no request was sent
    /// in between.
    pub fn is_complete_until(&mut self, end: Millis) {
        self.end = self.end.max(Some(end));
    }

    fn leave_out(&mut self, reason: String) {
        *self.left_out.entry(reason).or_default() += 1;
    }

    /// Compares the policies. Only requests whose project and time `is_counted` accepts are in the sums; the others
    /// still precede them.
    #[must_use]
    pub fn finish(
        mut self,
        catalog: &Catalog,
        is_counted: &dyn Fn(&str, Millis) -> bool,
    ) -> Comparison {
        let pricing = Pricing::new(catalog);
        let mut requests = Vec::new();
        let times = self.answers.iter().filter_map(|(_, answer)| answer.at);
        let end = times.chain(self.end).max().unwrap_or_default();
        for (sender, answer) in std::mem::take(&mut self.answers) {
            // A copy without counts, or a request that was refused.
            if answer.usage == Usage::default() {
                continue;
            }
            let is_in_scope = answer.at.is_none_or(|at| is_counted(&answer.project, at));
            match request(sender, answer, &pricing, is_in_scope) {
                Ok(request) => requests.push(request),
                Err(reason) if is_in_scope => self.leave_out(reason),
                Err(_) => {}
            }
        }
        requests.sort_by_key(|request| request.at);
        link(&mut requests, &pricing.rules);
        Comparison::new(&requests, end, &pricing, self.left_out)
    }
}

/// Returns the request of an answer.
///
/// # Errors
/// The reason why it cannot be compared.
fn request(
    sender: Sender,
    answer: PaidAnswer,
    pricing: &Pricing<'_>,
    is_counted: bool,
) -> Result<AnsweredRequest, String> {
    let at = answer.at.ok_or(NO_TIME)?;
    let is_of_session = matches!(answer.place, AnswerPlace::InSession { .. });
    if answer.place == AnswerPlace::Unknown || is_of_session && answer.session.is_empty() {
        return Err(NO_PLACE.to_owned());
    }
    let (usage, cost) = pricing.paid(&answer, at)?;
    let lost_by_change = answer.loss.as_ref().and_then(|loss| {
        let change = match &loss.cause {
            LossCause::ModelChanged => Change::Model,
            LossCause::Diagnosed(reason) if **reason == *"model_changed" => Change::Model,
            LossCause::Diagnosed(reason) if **reason == *"tools_changed" => Change::Tools,
            _ => return None,
        };
        Some((change, loss.tokens))
    });
    let lost = match (&answer.place, answer.loss) {
        // Transcripts of Claude Code name summaries and the provider's comparisons.
        (AnswerPlace::Recorded { .. }, loss) if sender != Sender::Log => Some(match loss {
            Some(loss) if matches!(loss.cause, LossCause::Paused(_)) => loss.tokens,
            _ => 0,
        }),
        _ => None,
    };
    Ok(AnsweredRequest {
        sender,
        provider: Provider::of_model(&answer.model),
        session: answer.session,
        model: answer.model,
        at,
        usage,
        terms: answer.terms,
        place: answer.place,
        cost,
        recorded_loss: lost,
        lost_by_change,
        is_counted,
        linked: Linked::default(),
    })
}

/// A session, or one of its sub-agents.
type SessionName = (Sender, Arc<str>, Option<Arc<str>>);

/// The answers of a session, or of one of its sub-agents.
#[derive(Default)]
struct Conversation {
    /// The last request by model.
    last: HashMap<Arc<str>, usize>,
    /// The model of the last request.
    model: Option<Arc<str>>,
}

/// Finds the request before each one, and what was lost in the pause between them. The requests are in the order of
/// their times.
fn link(requests: &mut [AnsweredRequest], rules: &Rules) {
    let mut keys: HashMap<u64, usize> = HashMap::new();
    let mut conversations: HashMap<SessionName, Conversation> = HashMap::new();
    for index in 0..requests.len() {
        let request = &requests[index];
        let (previous, is_same_model) = match &request.place {
            AnswerPlace::Recorded { key, previous, .. } => {
                keys.insert(*key, index);
                let previous = previous.and_then(|key| keys.get(&key).copied());
                (previous, true)
            }
            AnswerPlace::InSession { agent } => {
                let name = (
                    request.sender,
                    Arc::clone(&request.session),
                    agent.as_ref().map(Arc::clone),
                );
                let conversation = conversations.entry(name).or_default();
                let model = Arc::clone(&request.model);
                let before = conversation.model.replace(Arc::clone(&model));
                let is_same_model = before.as_ref() == Some(&model);
                (conversation.last.insert(model, index), is_same_model)
            }
            AnswerPlace::Unknown => (None, true),
        };
        let previous = previous.filter(|previous| *previous != index);
        let before = previous.map(|previous| (previous, &requests[previous]));
        requests[index].linked = Linked::new(request, before, is_same_model, rules);
        if let Some(previous) = previous {
            requests[previous].linked.has_next = true;
        }
    }
}
