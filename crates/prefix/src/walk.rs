//! Sessions of coding agents, answer by answer: pauses, prefix breaks, and jumps of the cost with their causes.

mod jump;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cachalot_accounting::{CostByKind, Rules, price_by_kind};
use cachalot_core::{Cost, Millis};
use cachalot_model::{Catalog, Usage};

use crate::diagnosis::{LikelyCause, Reason};
use crate::log::LoggedBreak;
use crate::reading::reading;
use crate::spend::{AnswerPlace, Client, LossCause, PaidAnswer, SLACK, SpendTotals};
use crate::what_if::Provider;

pub use jump::{Jump, JumpCause};

/// The cause of a loss that neither requests nor transcripts show.
const UNKNOWN_CAUSE: &str = "evicted by the provider, or not known";

/// Prefix breaks by the ID of the answer whose request broke the prefix.
#[derive(Debug, Default)]
pub struct Breaks(HashMap<String, LoggedBreak>);

impl Breaks {
    /// Creates a collection of the breaks whose answers have IDs.
    #[must_use]
    pub fn new(breaks: Vec<LoggedBreak>) -> Self {
        let breaks = breaks.into_iter();
        let named = breaks.filter_map(|broken| Some((broken.answer.clone()?, broken)));
        Self(named.collect())
    }

    fn of(&self, answer: &PaidAnswer) -> Option<&LoggedBreak> {
        self.0.get(&**answer.details.as_ref()?.id.as_ref()?)
    }
}

/// The answers of a session.
#[derive(Debug)]
pub struct Session<'a> {
    /// The program.
    pub client: Client,
    /// The ID.
    pub id: &'a str,
    /// The answers, in the order of their times.
    pub answers: Vec<&'a PaidAnswer>,
    /// Requests that are in no line.
    pub side_requests: Vec<&'a PaidAnswer>,
}

/// Returns the sessions of answers and of requests that are in no line.
#[must_use]
pub fn sessions<'a>(
    answers: impl IntoIterator<Item = &'a PaidAnswer>,
    side_requests: impl IntoIterator<Item = &'a PaidAnswer>,
) -> Vec<Session<'a>> {
    let mut sessions: BTreeMap<(Client, &str), Session<'a>> = BTreeMap::new();
    let answers = answers.into_iter().map(|answer| (answer, false));
    let side_requests = side_requests.into_iter();
    let side_requests = side_requests.map(|requests| (requests, true));
    for (answer, is_side_request) in answers.chain(side_requests) {
        let (client, id) = (answer.client, &*answer.session);
        let session = sessions.entry((client, id)).or_insert_with(|| Session {
            client,
            id,
            answers: Vec::new(),
            side_requests: Vec::new(),
        });
        if is_side_request {
            session.side_requests.push(answer);
        } else {
            session.answers.push(answer);
        }
    }
    let mut sessions: Vec<_> = sessions.into_values().collect();
    for session in &mut sessions {
        // Answers without a time are at the end.
        session
            .answers
            .sort_by_key(|answer| (answer.at.is_none(), answer.at));
    }
    sessions
}

/// An answer of a session, compared with the one before it.
#[derive(Debug)]
pub struct Turn<'a> {
    /// The answer.
    pub answer: &'a PaidAnswer,
    /// Its cost.
    pub cost: Cost,
    /// The time since the answer before it in the same conversation; each sub-agent has its own.
    pub pause: Option<Millis>,
    /// The lifetime of what that conversation had in the provider's cache for the model, where it is published.
    pub lifetime: Option<Millis>,
    /// True if the time since the model's last answer in the conversation was longer.
    pub is_cold: bool,
    /// Tokens that were sent again although the provider had them in its cache.
    pub loss: Option<TurnLoss<'a>>,
    /// The growth of the cost, if it is large.
    pub jump: Option<Jump>,
}

/// Tokens that a request sent again although the provider had them in its cache.
#[derive(Debug)]
pub struct TurnLoss<'a> {
    /// The number of tokens.
    pub tokens: u64,
    /// The cost beyond that of reading them; `None` if it is not known.
    pub cost: Option<Cost>,
    /// The cause, as far as it is known.
    pub cause: Cow<'static, str>,
    /// The break in the requests, where these are recorded.
    pub logged: Option<&'a LoggedBreak>,
}

/// A session with what its answers show.
#[derive(Debug)]
pub struct SessionWalk<'a> {
    /// The answers.
    pub turns: Vec<Turn<'a>>,
    /// The sums, with the requests that are in no line.
    pub totals: SpendTotals,
    /// The directory in which the program worked last.
    pub project: Arc<str>,
}

impl SessionWalk<'_> {
    /// The number of tokens that were sent again, and their cost as far as it is known.
    #[must_use]
    pub fn lost(&self) -> (u64, Cost) {
        let mut sum = (0_u64, Cost::default());
        for loss in self.turns.iter().filter_map(|turn| turn.loss.as_ref()) {
            sum.0 = sum.0.saturating_add(loss.tokens);
            sum.1 += loss.cost.unwrap_or(Cost::UNPRICED);
        }
        sum
    }
}

/// Compares answers with those before them.
pub struct Walker<'a> {
    catalog: &'a Catalog,
    breaks: &'a Breaks,
    rules: Rules,
}

/// The last answers of a conversation.
#[derive(Default)]
struct Conversation<'a> {
    /// The index of the last answer of any model.
    last: Option<usize>,
    /// The last answer of each model, with the lifetime of its entries.
    by_model: HashMap<&'a str, (&'a PaidAnswer, Option<Millis>)>,
}

impl<'a> Walker<'a> {
    /// Creates a walker with the prices of a catalog.
    #[must_use]
    pub fn new(catalog: &'a Catalog, breaks: &'a Breaks) -> Self {
        Self {
            catalog,
            breaks,
            rules: Rules::published(),
        }
    }

    /// Compares the answers of a session.
    #[must_use]
    pub fn walk(&self, session: &Session<'a>) -> SessionWalk<'a> {
        self.walk_shown(session, &|_| true)
    }

    /// The same with only those answers in the result that `is_shown` accepts; the others still precede them.
    #[must_use]
    pub fn walk_shown(
        &self,
        session: &Session<'a>,
        is_shown: &dyn Fn(&PaidAnswer) -> bool,
    ) -> SessionWalk<'a> {
        let mut totals = SpendTotals::default();
        for answer in session.answers.iter().filter(|answer| is_shown(answer)) {
            totals.add(answer, self.catalog);
        }
        let side_requests = session.side_requests.iter();
        for requests in side_requests.filter(|requests| is_shown(requests)) {
            totals.add_side_requests(requests, self.catalog);
        }
        let mut conversations: HashMap<Option<&str>, Conversation<'a>> = HashMap::new();
        let mut turns: Vec<Turn<'a>> = Vec::with_capacity(session.answers.len());
        for answer in &session.answers {
            let mut turn = Turn {
                answer,
                cost: self.cost(answer),
                pause: None,
                lifetime: None,
                is_cold: false,
                loss: None,
                jump: None,
            };
            if answer.place != AnswerPlace::Unknown {
                let conversation = conversations.entry(answer.agent()).or_default();
                self.compare(&mut turn, conversation, &turns, totals.cost);
                conversation.last = Some(turns.len());
            }
            turns.push(turn);
        }
        turns.retain(|turn| is_shown(turn.answer));
        let projects = session.answers.iter().rev();
        let mut projects = projects.map(|answer| &answer.project);
        let project = projects.find(|project| !project.is_empty());
        SessionWalk {
            turns,
            totals,
            project: project.map_or_else(|| "".into(), Arc::clone),
        }
    }

    /// Compares an answer with those before it in its conversation, which it joins.
    fn compare(
        &self,
        turn: &mut Turn<'a>,
        conversation: &mut Conversation<'a>,
        turns: &[Turn<'a>],
        total: Cost,
    ) {
        let answer = turn.answer;
        let last = conversation.last.map(|index| &turns[index]);
        let same_model = conversation.by_model.get(&*answer.model).copied();
        let inherited = same_model.and_then(|(_, lifetime)| lifetime);
        let provider = Provider::of_model(&answer.model);
        let lifetime = provider.lifetime(&answer.model, &answer.usage, inherited, &self.rules);
        turn.lifetime = inherited;
        let since = |before: &PaidAnswer| Some(answer.at?.saturating_sub(before.at?).max(0));
        // The answer before it may be of another session, of which this one is a fork.
        let recorded = answer.loss.as_ref().and_then(|loss| match loss.cause {
            LossCause::Paused(pause) => Some(pause),
            _ => None,
        });
        turn.pause = last.and_then(|last| since(last.answer)).or(recorded);
        let unused = same_model.and_then(|(before, _)| since(before));
        let outlived = unused.zip(inherited);
        turn.is_cold =
            recorded.is_some() || outlived.is_some_and(|(unused, lifetime)| unused > lifetime);
        turn.loss = self.loss(turn, same_model.map(|(before, _)| before));
        turn.jump = last.and_then(|last| {
            let jump = self.jump(last, turn)?;
            jump.is_large(last.cost, total).then_some(jump)
        });
        let entry = (answer, lifetime);
        conversation.by_model.insert(&answer.model, entry);
    }

    /// Returns what the request of an answer sent again: by its comparison with the request before it, by the transcript,
    /// or by the counts of the answers.
    fn loss(&self, turn: &Turn<'a>, before: Option<&PaidAnswer>) -> Option<TurnLoss<'a>> {
        let answer = turn.answer;
        if let Some(logged) = self.breaks.of(answer) {
            let diagnosis = &logged.diagnosis;
            let cause = match (diagnosis.cause, diagnosis.reason) {
                (Some(cause), _) => cause.what().into(),
                (None, Reason::EvictedOrUnknown) => UNKNOWN_CAUSE.into(),
                (None, reason) => reason.as_str().replace('_', " ").into(),
            };
            return Some(TurnLoss {
                tokens: diagnosis.lost_tokens,
                cost: diagnosis.lost_cost,
                cause,
                logged: Some(logged),
            });
        }
        let (tokens, cause) = match (&answer.loss, before) {
            (Some(loss), _) => (loss.tokens, described(&loss.cause)),
            // The other programs record no causes, and the counts of answers show a pause only.
            (None, Some(before)) if turn.is_cold && answer.client != Client::ClaudeCode => {
                let cached = cached(&before.usage);
                let is_shorter = answer.usage.total_input().saturating_add(SLACK) < cached;
                let missing = cached.saturating_sub(answer.usage.cache_read);
                let tokens = missing.min(answer.usage.cache_write());
                if is_shorter || tokens <= SLACK {
                    return None;
                }
                (tokens, LikelyCause::Expired.what().into())
            }
            _ => return None,
        };
        let read = reading(&answer.usage, tokens);
        let costs = self
            .price(answer, &answer.usage)
            .zip(self.price(answer, &read));
        let cost = costs.map(|(paid, read)| {
            let (paid, read) = (paid.total().picodollars, read.total().picodollars);
            Cost::from_picodollars(paid.saturating_sub(read))
        });
        Some(TurnLoss {
            tokens,
            cost,
            cause,
            logged: None,
        })
    }

    fn cost(&self, answer: &PaidAnswer) -> Cost {
        let by_price = || self.price(answer, &answer.usage).map(CostByKind::total);
        answer.cost.or_else(by_price).unwrap_or(Cost::UNPRICED)
    }

    /// Returns the cost of another usage under the terms of an answer; `None` if its price is not known.
    fn price(&self, answer: &PaidAnswer, usage: &Usage) -> Option<CostByKind> {
        let PaidAnswer { model, terms, .. } = answer;
        let listed = self.catalog.find_by_name(model)?.price.as_ref();
        price_by_kind(usage, model, listed, answer.at.unwrap_or_default(), terms).ok()
    }
}

fn cached(usage: &Usage) -> u64 {
    usage.cache_read.saturating_add(usage.cache_write())
}

fn described(cause: &LossCause) -> Cow<'static, str> {
    match cause {
        LossCause::Diagnosed(reason) => {
            let reason = reason.replace('_', " ");
            format!("{reason}, by the provider's own comparison").into()
        }
        LossCause::Compaction => LikelyCause::Compaction.what().into(),
        LossCause::ModelChanged => LikelyCause::ModelSwitched.what().into(),
        LossCause::Paused(_) => LikelyCause::Expired.what().into(),
        LossCause::Unexplained => UNKNOWN_CAUSE.into(),
    }
}
