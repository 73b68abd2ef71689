//! Start of a turn: replays an answer, or starts the turn with a ticket.

use std::sync::Arc;

use cachalot_cache::{
    BeginResult, CacheMode, HitPolicy, Key, Policy, Quota, Reason, RunPolicy, SingleFlight,
};

use super::question::TurnQuestion;
use super::settings::ResponseCacheSettings;
use super::store::FlatFile;
use super::turns::{ActiveTurn, ModelTurn, ReplayedTurn};
use super::{CacheResponse, replay, settings_of};
use crate::input::Input;
use crate::output::{Fault, Output, append_line};

/// The cache policy of turns. Turns never join a running call: a turn belongs to its own conversation.
pub(super) fn policy(question: &TurnQuestion, mode: CacheMode) -> Policy {
    let ResponseCacheSettings {
        ttl,
        max_entries,
        max_bytes,
        ..
    } = question.settings;
    let is_bounded = max_entries.is_some() || max_bytes.is_some();
    Policy {
        hit: HitPolicy {
            mode,
            session: question.session.clone(),
            // Without a time to live, no answer is stored that is built from what a server returned.
            domains: match ttl {
                Some(_) => question.store.announced.clone(),
                None => Vec::new(),
            },
            ..HitPolicy::default()
        },
        run: RunPolicy {
            ttl,
            join: SingleFlight::Off,
            quota: is_bounded.then(|| Quota {
                name: format!("turns of {}", question.agent),
                entries: max_entries.unwrap_or(u64::MAX),
                bytes: max_bytes.unwrap_or(u64::MAX),
            }),
            ..RunPolicy::default()
        },
    }
}

impl CacheResponse {
    /// Replays the answer of the question, or records that a model answers it.
    pub(super) async fn begin(&self, input: &Input) -> Result<Output, Fault> {
        let (Some(prompt), Some(view)) = (&input.prompt, self.lookup.agent(&input.agent_name))
        else {
            return Ok(Output::default());
        };
        let Some(settings) = settings_of(&*view) else {
            return Ok(Output::default());
        };
        let (store, is_new) = self
            .stores
            .open_for(&input.agent_name, &settings)
            .map_err(|why| Fault::new(not_stored_message(&input.agent_name, &why.to_string())))?;
        let flat = store.flat.clone();
        let question = TurnQuestion::new(&*view, settings, store, input, prompt, &self.secret_set);
        match flat {
            Some(file) => {
                let mut output = self.begin_in_file(question, &*file, input).await;
                if is_new {
                    append_line(&mut output.system_message, &notice(&*file));
                }
                Ok(output)
            }
            None => Ok(self.begin_in_store(question, input).await),
        }
    }

    async fn begin_in_store(&self, question: TurnQuestion, input: &Input) -> Output {
        let cache = question.store.cache.clone();
        if let Some(reason) = &question.bypass {
            if let Some(block) = frozen_output(&question, &reason.to_string()) {
                return block;
            }
            let ticket = cache.bypass(
                &question.call(),
                &policy(&question, question.mode),
                reason.clone(),
            );
            return self.begin_model_turn(question, Some(ticket), input);
        }
        let mut mode = self.mode_for(&question).await;
        loop {
            let begun = cache
                .begin(&question.call(), &policy(&question, mode))
                .await;
            match begun {
                Err(miss) => return blocked(&miss.to_string()),
                Ok(BeginResult::Run(ticket)) => {
                    return self.begin_model_turn(question, Some(ticket), input);
                }
                // The policy permits no stale entries.
                Ok(BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. }) => {
                    let form = question.form.as_ref();
                    match replay::from_entry(&outcome, form, &*self.clock).await {
                        Ok(output) => {
                            self.replay(&question, outcome.key, input);
                            return output;
                        }
                        // The next look-up ignores the entry. With `Refresh`, the new answer replaces it.
                        Err(why) => match mode_without_entry(mode) {
                            Some(next) => mode = next,
                            None => return blocked(&format!("frozen: {why}")),
                        },
                    }
                }
            }
        }
    }

    /// Returns the mode for the lookup. Where answers must match an output schema, an entry that does
    /// not match (any more) is no hit and must not be counted as one.
    async fn mode_for(&self, question: &TurnQuestion) -> CacheMode {
        let mode = question.mode;
        if question.form.is_none() {
            return mode;
        }
        let found = question
            .store
            .cache
            .probe(&question.call(), &policy(question, mode))
            .await;
        let is_unfit = match found {
            Ok(outcome) => replay::from_entry(&outcome, question.form.as_ref(), &*self.clock)
                .await
                .is_err(),
            Err(_) => false,
        };
        match mode_without_entry(mode) {
            Some(next) if is_unfit => next,
            _ => mode,
        }
    }

    async fn begin_in_file(
        &self,
        question: TurnQuestion,
        file: &dyn FlatFile,
        input: &Input,
    ) -> Output {
        let mut message = None;
        if question.bypass.is_none() && reads_cache(question.mode) {
            match file.get(&question.matched).await {
                Ok(Some(text)) => {
                    let form = question.form.as_ref();
                    if let Ok(output) = replay::from_file(text, &file.name(), form) {
                        self.replay(&question, Key::for_call(&question.call()), input);
                        return output;
                    }
                }
                Ok(None) => {}
                Err(why) => message = Some(why.to_string()),
            }
        }
        let reason = match &question.bypass {
            Some(reason) => reason.clone(),
            None => Reason::Absent,
        };
        if let Some(block) = frozen_output(&question, &reason.to_string()) {
            return block;
        }
        let mut output = self.begin_model_turn(question, None, input);
        if let Some(why) = message {
            append_line(&mut output.system_message, &why);
        }
        output
    }

    /// Records that a model answers.
    fn begin_model_turn(
        &self,
        question: TurnQuestion,
        ticket: Option<cachalot_cache::Ticket>,
        input: &Input,
    ) -> Output {
        let running = ModelTurn {
            question,
            ticket,
            rejected: None,
        };
        self.turns.put(input, ActiveTurn::Runs(Box::new(running)));
        Output::default()
    }

    /// Records that the cache answers: a stop hook may still reject the answer.
    fn replay(&self, question: &TurnQuestion, key: Key, input: &Input) {
        let replayed = ReplayedTurn {
            store: Arc::clone(&question.store),
            matched: question.matched.clone(),
            key,
            is_read_only: matches!(question.mode, CacheMode::ReadOnly | CacheMode::Frozen),
            is_rejected: false,
        };
        self.turns.put(input, ActiveTurn::ReplayedTurn(replayed));
    }
}

/// The mode to continue with if an entry exists but cannot be replayed; `None` if the run is frozen.
fn mode_without_entry(mode: CacheMode) -> Option<CacheMode> {
    match mode {
        CacheMode::On | CacheMode::Refresh => Some(CacheMode::Refresh),
        CacheMode::ReadOnly | CacheMode::Off => Some(CacheMode::Off),
        CacheMode::Frozen => None,
    }
}

fn reads_cache(mode: CacheMode) -> bool {
    matches!(
        mode,
        CacheMode::On | CacheMode::ReadOnly | CacheMode::Frozen
    )
}

/// In a frozen run, every user question is answered from the cache or blocked. Implicit questions are
/// exempt.
fn frozen_output(question: &TurnQuestion, why: &str) -> Option<Output> {
    let is_bound = question.mode == CacheMode::Frozen && !question.is_implicit;
    is_bound.then(|| {
        let agent = &question.agent;
        blocked(&format!(
            "frozen: the turn of `{agent}` is not answered by the cache ({why})"
        ))
    })
}

fn blocked(why: &str) -> Output {
    Output {
        block: Some(why.to_owned()),
        ..Output::default()
    }
}

fn not_stored_message(agent: &str, why: &str) -> String {
    format!("the answers of `{agent}` are not kept: {why}")
}

fn notice(file: &dyn FlatFile) -> String {
    format!(
        "answers are kept in {}, which holds questions and answers only: it cannot hold the rest of \
         the key, so an answer is given again after the instruction, the model, the tools, the user or \
         the conversation before it have changed; without `path` all of them are part of the key",
        file.name()
    )
}
