//! The question of a turn, and its cache key.

use std::sync::Arc;

use cachalot_cache::{CacheMode, Call, CallKind, Reason, Scope};
use cachalot_core::{Canonical, Digest, SecretSet};
use cachalot_model::OutputFormat;
use serde_json::json;

use super::settings::{MatchingMode, ResponseCacheSettings, SharingScope};
use super::store::ResponseStore;
use crate::AgentView;
use crate::input::{Input, Prompt};

/// Version of the key. Raising it makes all older entries unreachable.
const FORMAT: u32 = 1;

/// The question of a turn, with everything that its lookup and storage need.
pub(super) struct TurnQuestion {
    pub(super) agent: String,
    pub(super) settings: ResponseCacheSettings,
    pub(super) store: Arc<ResponseStore>,
    /// The user's message as typed.
    pub(super) message: String,
    /// The last user message when the turn began.
    pub(super) last: Option<String>,
    /// The normalized message that is compared (see [`ResponseCacheSettings::normalize`]).
    pub(super) matched: String,
    /// Digest of the conversation before the message.
    pub(super) prefix: Option<Digest>,
    /// The required output schema.
    pub(super) form: Option<OutputFormat>,
    pub(super) scope: Scope,
    pub(super) input: Canonical,
    /// The reason to skip both the lookup and the storage.
    pub(super) bypass: Option<Reason>,
    /// Set when no user asked: another agent delegated the task.
    pub(super) is_implicit: bool,
    pub(super) mode: CacheMode,
    /// The session of the turn.
    pub(super) session: Option<Arc<str>>,
}

impl TurnQuestion {
    pub(super) fn new(
        view: &dyn AgentView,
        settings: ResponseCacheSettings,
        store: Arc<ResponseStore>,
        input: &Input,
        prompt: &Prompt,
        secret_set: &SecretSet,
    ) -> Self {
        let fingerprint = view.fingerprint(&input.session_id);
        let matched = settings.normalize(&prompt.text);
        Self {
            agent: input.agent_name.clone(),
            message: prompt.text.clone(),
            last: input.last_user_message.clone(),
            is_implicit: prompt.implicit,
            form: prompt.form.clone(),
            prefix: prompt.prefix,
            scope: scope(&settings, input, &store.user),
            bypass: bypass_reason(&settings, &store, prompt, fingerprint),
            mode: mode(store.mode, prompt.fresh),
            session: (!input.session_id.is_empty()).then(|| input.session_id.as_str().into()),
            input: key(&settings, input, prompt, &matched, fingerprint, secret_set),
            matched,
            settings,
            store,
        }
    }

    pub(super) fn call(&self) -> Call<'_> {
        Call {
            kind: CallKind::Turn,
            scope: &self.scope,
            name: &self.agent,
            input: &self.input,
        }
    }
}

fn scope(settings: &ResponseCacheSettings, input: &Input, user: &str) -> Scope {
    match settings.scope {
        SharingScope::Session => Scope::Session(input.session_id.clone()),
        SharingScope::User => Scope::User(user.to_owned()),
        SharingScope::Agent => Scope::Agent(input.agent_name.clone()),
        SharingScope::Global => Scope::Global,
    }
}

/// Combines the mode of the run with the user's request for a fresh answer.
fn mode(over: CacheMode, fresh: bool) -> CacheMode {
    match over {
        CacheMode::On if fresh => CacheMode::Refresh,
        // Runs without a lookup and stores nothing.
        CacheMode::ReadOnly if fresh => CacheMode::Off,
        over => over,
    }
}

/// The cache key: everything that can change the answer. Tools resolve relative paths against the
/// directory.
fn key(
    settings: &ResponseCacheSettings,
    input: &Input,
    prompt: &Prompt,
    matched: &str,
    fingerprint: Option<Digest>,
    secret_set: &SecretSet,
) -> Canonical {
    // `implicit` and `fresh` change the mode, not the answer.
    let Prompt {
        text: _,
        prefix,
        context,
        implicit: _,
        fresh: _,
        attachments,
        form,
        // With `MatchingMode::Conversation`, earlier results are part of `before`; otherwise `eligible`
        // checks them.
        after_results: _,
    } = prompt;
    let hex = |digest: &Digest| digest.to_hex();
    let before = match settings.matching {
        MatchingMode::Conversation => prefix.as_ref().map(hex),
        MatchingMode::Question => None,
    };
    let value = json!({
        "format": FORMAT,
        "agent": input.agent_name,
        "fingerprint": fingerprint.as_ref().map(hex),
        "directory": input.cwd.to_string_lossy(),
        "match": match settings.matching {
            MatchingMode::Conversation => "conversation",
            MatchingMode::Question => "question",
        },
        "case_sensitive": settings.case_sensitive,
        "trim_spaces": settings.trim_spaces,
        "before": before,
        "text": matched,
        "context": context,
        "attachments": attachments.iter().map(hex).collect::<Vec<_>>(),
        "form": form.as_ref().map(|OutputFormat { name, schema, strict }| {
            json!({ "name": name, "schema": schema, "strict": strict })
        }),
    });
    Canonical::sealed(&value, secret_set)
}

/// Returns the reason to skip both the lookup and the storage.
fn bypass_reason(
    settings: &ResponseCacheSettings,
    store: &ResponseStore,
    prompt: &Prompt,
    fingerprint: Option<Digest>,
) -> Option<Reason> {
    let no_key = |why: &str| Some(Reason::NoKey(why.to_owned()));
    if prompt.implicit {
        return Some(Reason::Declined(
            "no user asked: another agent gave the task".to_owned(),
        ));
    }
    if store.flat.is_some() {
        return unsupported_by_file(prompt).map(|why| Reason::Declined(why.to_owned()));
    }
    if fingerprint.is_none() {
        return no_key("the instruction, tools and model of the agent are unknown");
    }
    if settings.matching == MatchingMode::Conversation && prompt.prefix.is_none() {
        return no_key("the conversation before the message is unknown");
    }
    if settings.scope == SharingScope::User && store.user.trim().is_empty() {
        return no_key("the user is unknown, and answers are shared per user");
    }
    None
}

/// Inputs that a flat file, keyed by the question only, cannot distinguish.
fn unsupported_by_file(prompt: &Prompt) -> Option<&'static str> {
    if !prompt.attachments.is_empty() {
        Some("the question has attachments, and a flat file cannot hold them")
    } else if !prompt.context.is_empty() {
        Some("hooks added to the question, and a flat file cannot hold that")
    } else {
        None
    }
}
