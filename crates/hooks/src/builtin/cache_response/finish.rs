//! The second leg: an answer is stored, or why not is said.

use std::time::Duration;

use cachalot_cache::{Filter, Mode, Product, Reason, Settled, Ticket};
use cachalot_core::{Millis, Spend};

use super::CacheResponse;
use super::begin::policy;
use super::eligible::{judge, judge_text};
use super::kept::Kept;
use super::question::Question;
use super::store::FlatFile;
use super::turns::{Running, Stored, Turn};
use crate::builtin::redact_secrets::{self, Masks};
use crate::input::{Answer, Input};
use crate::output::{Fault, Output};

impl CacheResponse {
    /// Ends the ticket of a turn with its answer.
    pub(super) async fn finish(&self, input: &Input) -> Result<Output, Fault> {
        let Some(answer) = &input.answer else {
            return Ok(Output::default());
        };
        match self.turns.take(input) {
            None => Ok(Output::default()),
            Some(Turn::Stored(stored)) => take_back(&stored).await,
            Some(Turn::Runs(running)) => {
                let Running { question, ticket } = *running;
                let masks = self.masks(input);
                let text = masks.and_then(|masks| masks.text(&answer.text));
                let text = text.unwrap_or_else(|| answer.text.clone());
                let verdict = judge(&question, input, answer, self.clock.now())
                    .and_then(|()| judge_text(&question, &text));
                match (ticket, question.store.flat.clone()) {
                    (Some(ticket), _) => {
                        self.end_ticket(question, ticket, verdict, text, answer, input)
                            .await;
                        Ok(Output::default())
                    }
                    (None, Some(file)) => {
                        let verdict =
                            verdict.and_then(|()| self.may_lie_open(&question, &text, masks));
                        self.put_into(&*file, question, verdict, &text, answer, input)
                            .await
                    }
                    (None, None) => Ok(Output::default()),
                }
            }
        }
    }

    async fn end_ticket(
        &self,
        question: Question,
        mut ticket: Ticket,
        verdict: Result<(), String>,
        text: String,
        answer: &Answer,
        input: &Input,
    ) {
        for call in &answer.calls {
            // What leaves no witness was judged above: it is vouched for by a time to live.
            if call.witnesses.items().is_ok() {
                ticket.witness().adopt(&call.witnesses);
            }
            if let Some(expires) = call.expires {
                ticket.expire_within(left(expires, self.clock.now()));
            }
        }
        let kept = Kept::new(text, &input.model_id, &question.agent).encode();
        let (value, verdict) = match kept {
            Ok(value) => (value, verdict),
            Err(why) => (bytes::Bytes::new(), verdict.and(Err(why))),
        };
        let key = ticket.outcome().key;
        let spent = spent(answer, ticket.elapsed());
        if question.is_implicit {
            // It is part of what the turn spends that gave the task.
            ticket.account_elsewhere(spent);
        }
        let product = Product {
            keep: verdict.map_err(Reason::Declined),
            ..Product::kept(value, spent)
        };
        let Settled { stored, .. } = ticket.finish(product).await;
        if stored.is_ok() {
            let stored = Stored { question, key };
            self.turns.put(input, Turn::Stored(Box::new(stored)));
        }
    }

    /// Puts an answer into a flat file, and accounts for the turn.
    async fn put_into(
        &self,
        file: &dyn FlatFile,
        question: Question,
        verdict: Result<(), String>,
        text: &str,
        answer: &Answer,
        input: &Input,
    ) -> Result<Output, Fault> {
        let verdict = match (&question.bypass, question.mode) {
            (Some(reason), _) => Err(reason.clone()),
            (None, Mode::Off) => Err(Reason::Off),
            (None, Mode::ReadOnly | Mode::Frozen) => Err(Reason::ReadOnly),
            (None, Mode::On | Mode::Refresh) => verdict.map_err(Reason::Declined),
        };
        let put = match &verdict {
            Ok(()) => file.put(&question.matched, text).await,
            Err(_) => Ok(()),
        };
        let reason = match (&verdict, &put) {
            (Err(reason), _) => reason.clone(),
            (Ok(()), Err(why)) => Reason::MemoryFault(why.clone()),
            (Ok(()), Ok(())) => Reason::Declined(format!("kept in {}", file.name())),
        };
        account(&question, answer, reason).await;
        if verdict.is_ok() && put.is_ok() {
            let key = cachalot_cache::Key::of(&question.call());
            let stored = Stored { question, key };
            self.turns.put(input, Turn::Stored(Box::new(stored)));
        }
        match put {
            Ok(()) => Ok(Output::default()),
            Err(why) => Err(Fault::new(format!("the answer was not kept: {why}"))),
        }
    }

    /// Whether a question and its answer may lie in a flat file, as they are. An engine keeps no
    /// questions, and sees to answers by itself.
    fn may_lie_open(
        &self,
        question: &Question,
        answer: &str,
        masks: Option<Masks<'_>>,
    ) -> Result<(), String> {
        let asked = question.matched.as_str();
        let is_known = |text: &str| self.seals.occur_in(text.as_bytes());
        let is_masked = |masks: Masks<'_>| masks.text(asked).is_some();
        if is_known(asked) || masks.is_some_and(is_masked) {
            return Err(
                "the question holds a secret, and a flat file would keep it as it is".to_owned(),
            );
        }
        if is_known(answer) {
            return Err(Reason::HoldsSecret.to_string());
        }
        Ok(())
    }

    /// What is masked in what is stored: the same as in what the agent's models are sent.
    fn masks(&self, input: &Input) -> Option<Masks<'_>> {
        let view = self.lookup.agent(&input.agent_name);
        redact_secrets::masks(view.as_deref(), &self.seals)
    }
}

/// How long it is until then.
fn left(expires: Millis, now: Millis) -> Duration {
    let left = expires.saturating_sub(now);
    Duration::from_millis(u64::try_from(left).unwrap_or(0))
}

/// What one turn cost, as it would cost again.
fn spent(answer: &Answer, elapsed: Duration) -> Spend {
    let time = answer.worth.time;
    Spend {
        calls: 1,
        time: if time.is_zero() { elapsed } else { time },
        ..answer.worth
    }
}

/// The row of a turn whose answer no engine keeps.
async fn account(question: &Question, answer: &Answer, reason: Reason) {
    let policy = policy(question, question.mode);
    let ticket = question
        .store
        .cache
        .bypass(&question.call(), &policy, reason);
    let spent = spent(answer, Duration::ZERO);
    if question.is_implicit {
        ticket.account_elsewhere(spent);
    }
    ticket
        .finish(Product::kept(bytes::Bytes::new(), spent))
        .await;
}

/// Takes an answer back that was stored at an earlier `stop` of the same turn: the turn went on, so
/// that it was not the whole answer.
async fn take_back(stored: &Stored) -> Result<Output, Fault> {
    let Stored { question, key } = stored;
    let taken = match &question.store.flat {
        Some(file) => file.remove(&question.matched).await,
        None => {
            let which = Filter {
                key: Some(*key),
                ..Filter::default()
            };
            let erased = question.store.cache.erase(&which, false).await;
            erased.map(|_| ()).map_err(|error| error.to_string())
        }
    };
    match taken {
        Ok(()) => Ok(Output::default()),
        Err(why) => Err(Fault::new(format!(
            "an answer that was stored too early could not be taken back: {why}"
        ))),
    }
}
