//! End of a turn: stores the answer, or records why not.

use std::time::Duration;

use cachalot_cache::{CacheMode, EntryFilter, Reason, RunResult, Ticket};
use cachalot_core::{Millis, Spend};

use super::CacheResponse;
use super::begin::policy;
use super::eligible::check_answer;
use super::question::TurnQuestion;
use super::store::FlatFile;
use super::stored_answer::{StoredAnswer, check};
use super::turns::{ActiveTurn, ModelTurn, RejectedAnswer, ReplayedTurn};
use super::unsuitable::Unsuitable;
use crate::builtin::redact_secrets::{self, SecretMask};
use crate::input::{Answer, Input};
use crate::output::{Fault, Output};

impl CacheResponse {
    /// Finishes the ticket of a turn with its answer, after all other stop hooks ran.
    pub(super) async fn finish(&self, input: &Input) -> Result<Output, Fault> {
        let Some(answer) = &input.answer else {
            return Ok(Output::default());
        };
        match (self.turns.take(input), &answer.rejected) {
            (None, _) | (Some(ActiveTurn::ReplayedTurn(_)), None) => Ok(Output::default()),
            (Some(ActiveTurn::ReplayedTurn(replayed)), Some(_)) => {
                self.erase_rejected(replayed, input).await
            }
            (Some(ActiveTurn::Runs(mut running)), Some(why)) => {
                let elapsed = running.ticket.as_ref().map(Ticket::elapsed);
                // The turn goes on. If it ends without another answer, `end` records this one.
                running.rejected = Some(RejectedAnswer {
                    why: why.clone(),
                    spent: spent(answer, elapsed.unwrap_or_default()),
                });
                self.turns.put(input, ActiveTurn::Runs(running));
                Ok(Output::default())
            }
            (Some(ActiveTurn::Runs(running)), None) => {
                self.finish_model_turn(*running, answer, input).await
            }
        }
    }

    /// Ends a turn. If its last answer was rejected, the ledger records the cost.
    pub(super) async fn end(&self, input: &Input) -> Result<Output, Fault> {
        match self.turns.take(input) {
            Some(ActiveTurn::ReplayedTurn(replayed)) if replayed.is_rejected => {
                self.erase_rejected(replayed, input).await
            }
            Some(ActiveTurn::Runs(running)) => {
                if let Some(RejectedAnswer { why, spent }) = running.rejected {
                    let reason = declined(Unsuitable::Rejected(why));
                    decline(&running.question, running.ticket, spent, reason).await;
                }
                Ok(Output::default())
            }
            Some(ActiveTurn::ReplayedTurn(_)) | None => Ok(Output::default()),
        }
    }

    /// Stores the answer of a turn, or records the reason why not.
    async fn finish_model_turn(
        &self,
        running: ModelTurn,
        answer: &Answer,
        input: &Input,
    ) -> Result<Output, Fault> {
        let ModelTurn {
            question, ticket, ..
        } = running;
        let secret_mask = self.secret_mask(input);
        let text = secret_mask.and_then(|secret_mask| secret_mask.text(&answer.text));
        let text = text.unwrap_or_else(|| answer.text.clone());
        // The masked text is checked, because it is the one that is replayed.
        let verdict = check_answer(&question, input, answer, self.clock.now())
            .and_then(|()| check(&text, question.form.as_ref()));
        match (ticket, question.store.flat.clone()) {
            (Some(ticket), _) => {
                self.end_ticket(&question, ticket, verdict, text, answer, input)
                    .await;
                Ok(Output::default())
            }
            (None, Some(file)) => {
                let verdict = verdict
                    .and_then(|()| self.check_plain_text_storage(&question, &text, secret_mask));
                write_to_file(&*file, &question, verdict, &text, answer).await
            }
            (None, None) => Ok(Output::default()),
        }
    }

    async fn end_ticket(
        &self,
        question: &TurnQuestion,
        mut ticket: Ticket,
        verdict: Result<(), Unsuitable>,
        text: String,
        answer: &Answer,
        input: &Input,
    ) {
        for call in &answer.calls {
            // Results without witnesses were judged above: they are stored only under a TTL.
            if call.witnesses.items().is_ok() {
                ticket.witness().adopt(&call.witnesses);
            }
            if let Some(expires) = call.expires {
                ticket.limit_ttl(remaining(expires, self.clock.now()));
            }
        }
        let kept = StoredAnswer::new(text, &input.model_id, &question.agent).encode();
        let (value, verdict) = match kept {
            Ok(value) => (value, verdict),
            Err(why) => (bytes::Bytes::new(), verdict.and(Err(why))),
        };
        let spent = spent(answer, ticket.elapsed());
        if question.is_implicit {
            // The cost is already part of the turn that delegated this task.
            ticket.subtract_nested(spent);
        }
        let product = RunResult {
            storable: verdict.map_err(declined),
            ..RunResult::storable(value, spent)
        };
        ticket.finish(product).await;
    }

    /// Erases a replayed answer that a stop hook rejected. After a failure, it is tried once more at the
    /// end of the turn. In a read-only run, the error states how to erase the answer.
    async fn erase_rejected(
        &self,
        mut replayed: ReplayedTurn,
        input: &Input,
    ) -> Result<Output, Fault> {
        let store = &replayed.store;
        let failure = match &store.flat {
            _ if replayed.is_read_only => Some("this run only reads the cache".to_owned()),
            Some(file) => {
                let removed = file.remove(&replayed.matched).await;
                removed.err().map(|error| error.to_string())
            }
            None => {
                let which = EntryFilter {
                    key: Some(replayed.key),
                    ..EntryFilter::default()
                };
                let erased = store.cache.erase(&which, false).await;
                erased.err().map(|error| error.to_string())
            }
        };
        let Some(why) = failure else {
            return Ok(Output::default());
        };
        let remedy = match &store.flat {
            Some(file) => format!("remove it from {}", file.name()),
            None => format!("`cachalot cache rm {}` removes it", replayed.key),
        };
        if !replayed.is_rejected && !replayed.is_read_only {
            replayed.is_rejected = true;
            self.turns.put(input, ActiveTurn::ReplayedTurn(replayed));
        }
        Err(Fault::new(format!(
            "a stored answer that a hook rejected could not be erased: {why}; {remedy}"
        )))
    }

    /// Checks that a question and its answer may be stored in a flat file in plain text, that is without
    /// secrets. The engine needs no such check: it stores no questions and checks answers itself.
    fn check_plain_text_storage(
        &self,
        question: &TurnQuestion,
        answer: &str,
        secret_mask: Option<SecretMask<'_>>,
    ) -> Result<(), Unsuitable> {
        let asked = question.matched.as_str();
        let is_known = |text: &str| self.secret_set.occurs_in(text.as_bytes());
        let is_masked = |secret_mask: SecretMask<'_>| secret_mask.text(asked).is_some();
        if is_known(asked) || secret_mask.is_some_and(is_masked) {
            return Err(Unsuitable::SecretInQuestion);
        }
        if is_known(answer) {
            return Err(Unsuitable::SecretInAnswer);
        }
        Ok(())
    }

    /// The redaction for stored answers: the same as for messages to the agent's models.
    fn secret_mask(&self, input: &Input) -> Option<SecretMask<'_>> {
        let view = self.lookup.agent(&input.agent_name);
        redact_secrets::secret_mask(view.as_deref(), &self.secret_set)
    }
}

fn declined(why: Unsuitable) -> Reason {
    Reason::Declined(why.to_string())
}

/// The time until `expires`; zero if it has passed.
fn remaining(expires: Millis, now: Millis) -> Duration {
    let remaining = expires.saturating_sub(now);
    Duration::from_millis(u64::try_from(remaining).unwrap_or(0))
}

/// The cost that a replay of the answer saves. The time is `elapsed` if the answer does not contain it.
fn spent(answer: &Answer, elapsed: Duration) -> Spend {
    let time = answer.worth.time;
    Spend {
        calls: 1,
        time: if time.is_zero() { elapsed } else { time },
        ..answer.worth
    }
}

/// Writes an answer to a flat file and records the turn in the ledger.
async fn write_to_file(
    file: &dyn FlatFile,
    question: &TurnQuestion,
    verdict: Result<(), Unsuitable>,
    text: &str,
    answer: &Answer,
) -> Result<Output, Fault> {
    let verdict = match (&question.bypass, question.mode) {
        (Some(reason), _) => Err(reason.clone()),
        (None, CacheMode::Off) => Err(Reason::Off),
        (None, CacheMode::ReadOnly | CacheMode::Frozen) => Err(Reason::ReadOnly),
        (None, CacheMode::On | CacheMode::Refresh) => verdict.map_err(declined),
    };
    let put = match &verdict {
        Ok(()) => file.put(&question.matched, text).await,
        Err(_) => Ok(()),
    };
    let reason = match (&verdict, &put) {
        (Err(reason), _) => reason.clone(),
        (Ok(()), Err(why)) => Reason::StoreFault(why.to_string()),
        (Ok(()), Ok(())) => Reason::Declined(format!("kept in {}", file.name())),
    };
    // The engine stores nothing of it, but its ledger has a row for each turn.
    decline(question, None, spent(answer, Duration::ZERO), reason).await;
    match put {
        Ok(()) => Ok(Output::default()),
        Err(why) => Err(Fault::new(format!("the answer was not kept: {why}"))),
    }
}

/// Records a turn of which the engine stores nothing. Without a ticket, the ledger row is written
/// immediately.
async fn decline(question: &TurnQuestion, ticket: Option<Ticket>, spent: Spend, reason: Reason) {
    let (ticket, storable) = match ticket {
        Some(ticket) => (ticket, Err(reason)),
        None => {
            let policy = policy(question, question.mode);
            let cache = &question.store.cache;
            (cache.bypass(&question.call(), &policy, reason), Ok(()))
        }
    };
    if question.is_implicit {
        // The cost is already part of the turn that delegated this task.
        ticket.subtract_nested(spent);
    }
    let product = RunResult {
        storable,
        ..RunResult::storable(bytes::Bytes::new(), spent)
    };
    ticket.finish(product).await;
}
