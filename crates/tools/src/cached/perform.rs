//! Execution of one call: served, run and stored, or only run.

use std::sync::Arc;

use cachalot_cache::{
    self as cache, BeginResult, CacheMode, CacheStatus, CallKind, CallSummary, HitPolicy, Policy,
    Reason, RunPolicy, RunResult, SingleFlight, Ticket, Witness,
};
use cachalot_core::{Canonical, Digest, Effects, Millis, Spend, Witnesses};
use cachalot_model::Block;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cacheability::{Cacheability, ToolProfile};
use super::counters::bypass;
use super::deliveries::marker;
use super::sessions::{SessionCache, path_text};
use super::settings::RepeatDelivery;
use super::stored_result::{self, failure};
use super::{CachedTools, defaults, force};
use crate::registry::{expires, lifetime, result_witnesses, run_guarded};
use crate::toolbox::{
    BatchContext, CallOutcome, PreparedCall, ReadyCall, RefusedCall, ToolCall, ToolCallResult,
};
use cachalot_operation::domains::Domains;
use cachalot_operation::{Arguments, ToolContext, ToolOutput};

/// The version of inputs and stored results: when it is raised, older results are never found.
const FORMAT_VERSION: u32 = 1;

/// A result and its origin.
struct CallAnswer {
    output: ToolOutput,
    outcome: CallOutcome,
    saved: Spend,
    /// The key and the digest of the result, if a marker may replace it.
    delivery_key: Option<(cache::Key, Digest)>,
    /// The witnesses of the result: first those that were recorded, finally those that are known to be
    /// complete.
    witnesses: Witnesses,
    /// The time until which it is as good as a new one.
    expires: Option<Millis>,
}

impl CallAnswer {
    /// Creates the result of a run with its recorded witnesses.
    fn from_run(output: ToolOutput, why: Option<String>, witnesses: Witnesses) -> Self {
        Self {
            output,
            outcome: CallOutcome::Ran(why),
            saved: Spend::default(),
            delivery_key: None,
            witnesses,
            expires: None,
        }
    }

    /// Sets the expiry.
    fn with_expiry(self, expires: Option<Millis>) -> Self {
        Self { expires, ..self }
    }
}

impl CachedTools {
    /// Answers one call, and notifies the watcher.
    pub(super) async fn perform(
        &self,
        prepared: PreparedCall,
        batch: &BatchContext,
    ) -> ToolCallResult {
        let (prepared, context) = batch.begin(prepared);
        let answer = match prepared {
            PreparedCall::Refused(refused) => refused.into(),
            PreparedCall::Ready(ReadyCall {
                call, arguments, ..
            }) => match self.profiles.get(&call.name) {
                Some(profile) => {
                    let began = Instant::now();
                    let done = self
                        .answer(&call, profile, arguments, &context, batch)
                        .await;
                    ToolCallResult {
                        call,
                        output: done.output,
                        outcome: done.outcome,
                        elapsed: began.elapsed(),
                        saved: done.saved,
                        witnesses: done.witnesses,
                        expires: done.expires,
                    }
                }
                // The call was prepared before the tool was removed.
                None => {
                    let why = self.shown.unknown(&call.name);
                    RefusedCall::new(call, why).into()
                }
            },
        };
        batch.observer.call_finished(&answer);
        answer
    }

    async fn answer(
        &self,
        call: &ToolCall,
        profile: &ToolProfile,
        mut arguments: Arguments,
        context: &ToolContext,
        batch: &BatchContext,
    ) -> CallAnswer {
        let shared = &self.shared;
        let forced = profile.takes_force && force::take(&mut arguments);
        let effects = profile.tool.effects(&arguments, context);
        let session = shared.sessions.get_or_create(
            &context.session,
            context.workspace.root(),
            &shared.options,
        );
        let (implicit, unkeyed) = match profile.tool.implicit_inputs(&arguments, context) {
            Ok(implicit) => (implicit, None),
            Err(failure) => (Value::Null, Some(failure.message)),
        };
        let asking = CachedCall {
            tools: self,
            profile,
            effects: &effects,
            announced_reads: profile.tool.announced_reads(&arguments),
            session: &session,
            input: input(profile, &arguments, &implicit, context),
            unkeyed,
            context,
            forced,
        };
        session.deliveries().forget_id(&call.id);
        let done = asking.verify_witnesses(asking.answer(arguments).await);
        asking.deliver(done, call, batch)
    }
}

/// The input of a call: everything that can change its result, and nothing else.
fn input(
    profile: &ToolProfile,
    arguments: &Arguments,
    implicit: &Value,
    context: &ToolContext,
) -> Canonical {
    let metadata = profile.tool.metadata();
    let input = json!({
        "format": FORMAT_VERSION,
        "origin": profile.origin,
        "version": metadata.version,
        "schema": profile.schema,
        "workspace": path_text(context.workspace.root()),
        "implicit": implicit,
        "arguments": defaults::with_defaults(arguments, &metadata.parameters.schema()),
    });
    Canonical::sealed(&input, &context.secret_set)
}

/// A call to the engine.
struct CachedCall<'a> {
    tools: &'a CachedTools,
    profile: &'a ToolProfile,
    effects: &'a Effects,
    /// The domains of announced changes that expire the result.
    announced_reads: Domains,
    session: &'a Arc<SessionCache>,
    input: Canonical,
    /// The reason why the inputs of the call are unknown, so that it has no key.
    unkeyed: Option<String>,
    context: &'a ToolContext,
    forced: bool,
}

impl CachedCall<'_> {
    fn call(&self) -> cache::Call<'_> {
        cache::Call {
            kind: CallKind::Tool,
            scope: &self.session.scope,
            name: &self.profile.tool.metadata().name,
            input: &self.input,
        }
    }

    /// Runs the tool; if it writes, all engines are notified before and after. Returns its result and the
    /// witnesses that were recorded in `witness`.
    async fn run(&self, arguments: Arguments, witness: &Witness) -> (ToolOutput, Witnesses) {
        let context = ToolContext {
            witness: witness.clone(),
            ..self.context.clone()
        };
        let root = context.workspace.root();
        let write_notifier = &self.tools.shared.options.write_notifier;
        let call = run_guarded(&*self.profile.tool, arguments, &context);
        let output = write_notifier
            .announce(&self.effects.writes, root, call)
            .await;
        (output, witness.witnesses())
    }

    /// The reason if the call must not use the cache.
    fn bypass(&self) -> Option<&str> {
        match self.profile.cacheability {
            _ if self.unkeyed.is_some() => self.unkeyed.as_deref(),
            Cacheability::Never(why) => Some(why),
            _ if !self.effects.writes.is_nothing() => Some(bypass::MAY_WRITE),
            _ => None,
        }
    }

    fn policy(&self) -> Policy {
        let cacheability = self.profile.cacheability;
        let shared = &self.tools.shared;
        Policy {
            hit: HitPolicy {
                // `force` changes the usual mode only. A mode of the command line, such as frozen, wins.
                mode: match shared.options.mode {
                    CacheMode::On if self.forced => CacheMode::Refresh,
                    mode => mode,
                },
                domains: cacheability
                    .domains(self.effects, self.context)
                    .and(self.announced_reads.clone())
                    .for_engine(self.session.engine_lifetime),
                ..self.accounting_policy().hit
            },
            run: RunPolicy {
                ttl: cacheability.ttl(),
                join: if self.shares_runs() {
                    SingleFlight::Process
                } else {
                    SingleFlight::Off
                },
                max_bytes: shared.options.settings.max_bytes,
                ..RunPolicy::default()
            },
        }
    }

    /// A policy that only contains the session of the call.
    fn accounting_policy(&self) -> Policy {
        let session = self.context.session.as_str();
        Policy {
            hit: HitPolicy {
                session: (!session.is_empty()).then(|| session.into()),
                ..HitPolicy::default()
            },
            ..Policy::default()
        }
    }

    /// True if concurrent identical calls may share a run. False for a tool whose results do not last, and,
    /// if other users share the scope, for a tool that may declare only afterwards that its result is for
    /// this user only.
    fn shares_runs(&self) -> bool {
        let profile = self.profile;
        profile.cacheability != Cacheability::IfStated
            && (profile.is_built_in() || !self.is_shared_with_others())
    }

    fn is_shared_with_others(&self) -> bool {
        matches!(
            self.session.scope,
            cache::Scope::Workspace(_) | cache::Scope::Global
        )
    }

    async fn answer(&self, arguments: Arguments) -> CallAnswer {
        if let Some(why) = self.bypass() {
            return self.bypassed(arguments, why).await;
        }
        let mut policy = self.policy();
        loop {
            match self.session.engine.begin(&self.call(), &policy).await {
                Err(miss) => {
                    let output = ToolOutput::error(miss.to_string());
                    let why = Some(miss.reason.to_string());
                    return CallAnswer::from_run(output, why, Witnesses::unknown("it did not run"));
                }
                Ok(BeginResult::Run(ticket)) => return self.lead(arguments, ticket).await,
                // The policy permits no stale entries.
                Ok(BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. }) => {
                    let coalesced = outcome.status == CacheStatus::Coalesced;
                    if coalesced && !is_current_for_follower(&outcome.settled().await) {
                        policy.run.join = SingleFlight::Off;
                        continue;
                    }
                    match stored_result::read(&outcome.body).await {
                        Ok(output) => {
                            self.profile.tool.on_hit(&arguments);
                            return self.served(output, &outcome).await;
                        }
                        Err(failure) if policy.hit.mode == CacheMode::Frozen => {
                            let why = format!("frozen: its entry cannot be read: {failure}");
                            let output = ToolOutput::error(why.clone());
                            let witnesses = Witnesses::unknown("it did not run");
                            return CallAnswer::from_run(output, Some(why), witnesses);
                        }
                        // An entry that cannot be decoded has to be replaced.
                        Err(_) => policy.hit.mode = CacheMode::Refresh,
                    }
                }
            }
        }
    }

    /// Runs a call without a lookup; it gets a ledger row like any call.
    async fn bypassed(&self, arguments: Arguments, why: &str) -> CallAnswer {
        let reason = Reason::Declined(why.to_owned());
        let engine = &self.session.engine;
        let ticket = engine.bypass(&self.call(), &self.accounting_policy(), reason);
        self.count(|counters| counters.bypassed(why));
        let (output, noted) = self.run(arguments, &Witness::default()).await;
        let spent = Spend::for_call(ticket.elapsed());
        if output.is_error {
            ticket.fail(failure(&output)).await;
        } else {
            // A bypass stores nothing, so that its row in the ledger needs no content.
            let product = RunResult::storable(bytes::Bytes::new(), spent);
            ticket.finish(product).await;
        }
        let tool = &*self.profile.tool;
        let expires = expires(&output, lifetime(tool), self.context.clock.now());
        CallAnswer::from_run(output, None, noted).with_expiry(expires)
    }

    /// Runs the tool on behalf of all callers of the same call.
    async fn lead(&self, arguments: Arguments, mut ticket: Ticket) -> CallAnswer {
        let reason = ticket.status().reason().cloned();
        let cacheability = self.profile.cacheability;
        if cacheability != Cacheability::IfStated {
            self.count_run(reason.as_ref());
        }
        let witness = ticket.witness().clone();
        let (output, noted) = self.run(arguments, &witness).await;
        let why = reason.as_ref().map(ToString::to_string);
        let spent = Spend::for_call(ticket.elapsed());
        if output.is_error {
            let settled = ticket.fail(failure(&output)).await;
            self.count_end(reason.as_ref(), &settled);
            return CallAnswer::from_run(output, why, noted);
        }
        if let Some(lifetime) = output.lifetime {
            ticket.limit_ttl(lifetime);
        }
        let prefix = self.tools.shared.options.settings.error_prefix.as_deref();
        let storable = if output.private && self.is_shared_with_others() {
            Err(Reason::Declined("it is for this user alone".to_owned()))
        } else if let Some(prefix) = prefix.filter(|prefix| begins_with(&output, prefix)) {
            Err(Reason::Declined(format!("it begins with `{prefix}`")))
        } else {
            cacheability.check_storable(&output, self.effects, &witness)
        };
        let (value, storable) = match stored_result::encode(&output) {
            Ok(value) => (value, storable),
            Err(error) => (
                bytes::Bytes::new(),
                Err(Reason::Declined(error.to_string())),
            ),
        };
        let delivery_key = self.delivery_key(&value);
        let expires = expires(&output, cacheability.ttl(), self.context.clock.now());
        let product = RunResult {
            storable,
            ..RunResult::storable(value, spent)
        };
        let settled = ticket.finish(product).await;
        self.count_end(reason.as_ref(), &settled);
        CallAnswer {
            delivery_key,
            ..CallAnswer::from_run(output, why, noted).with_expiry(expires)
        }
    }

    /// Returns an answer of the engine.
    async fn served(&self, output: ToolOutput, outcome: &cache::Outcome) -> CallAnswer {
        let coalesced = outcome.status == CacheStatus::Coalesced;
        let bytes = content_bytes(&output.content);
        self.count(|counters| {
            if coalesced {
                counters.coalesced += 1;
            } else {
                counters.hits += 1;
            }
            counters.bytes_served += bytes;
        });
        let delivery_key = match outcome.body.whole().await {
            Ok(value) => self.delivery_key(&value),
            Err(_) => None,
        };
        let settled = outcome.settled().await;
        let now = self.context.clock.now();
        CallAnswer {
            // A result that could not be stored has no expiry in the engine.
            expires: (settled.expires)
                .or_else(|| expires(&output, self.profile.cacheability.ttl(), now)),
            output,
            outcome: if coalesced {
                CallOutcome::Coalesced
            } else {
                CallOutcome::Hit
            },
            saved: settled.saved,
            delivery_key,
            witnesses: outcome.witnesses(),
        }
    }

    /// Replaces the recorded witnesses by those that are known to be complete. A result with a configured
    /// lifetime gets unknown witnesses, so that results built from it do not outlive it.
    fn verify_witnesses(&self, done: CallAnswer) -> CallAnswer {
        let metadata = self.profile.tool.metadata();
        let witnesses = match self.profile.cacheability.ttl() {
            Some(_) => Witnesses::unknown("its results last for a time only"),
            None => result_witnesses(metadata, self.effects, &done.output, done.witnesses),
        };
        CallAnswer { witnesses, ..done }
    }

    fn delivery_key(&self, value: &[u8]) -> Option<(cache::Key, Digest)> {
        let marks = self.tools.shared.options.settings.delivery == RepeatDelivery::Marker;
        marks.then(|| (cache::Key::for_call(&self.call()), Digest::sha256(value)))
    }

    /// Returns the result in full, or a marker if the conversation contains it already.
    fn deliver(&self, mut done: CallAnswer, call: &ToolCall, batch: &BatchContext) -> CallAnswer {
        let Some((key, content)) = done.delivery_key.take() else {
            return done;
        };
        let mut deliveries = self.session.deliveries();
        let size = content_bytes(&done.output.content);
        if !self.forced
            && let Some(note) = deliveries.mark(&key, content, &batch.verbatim, |id| {
                let note = marker(&call.name, id, self.profile.takes_force);
                ((note.len() as u64) < size).then_some(note)
            })
        {
            self.count(|counters| counters.saved(size, note.len() as u64));
            done.output.content = vec![Block::text(note)];
            return done;
        }
        deliveries.given(key, &call.id, content, &batch.verbatim);
        done
    }

    /// Counts a run as a miss, unless a fresh result was requested.
    fn count_run(&self, reason: Option<&Reason>) {
        self.count(|counters| match reason {
            Some(reason @ (Reason::Off | Reason::Refresh)) => {
                counters.bypassed(&reason.to_string());
            }
            Some(reason) => counters.count_miss(reason),
            None => {}
        });
    }

    /// Counts a finished run. Only now is it known if the result states its lifetime: if not, the lookup was
    /// pointless, and the call counts as a bypass.
    fn count_end(&self, reason: Option<&Reason>, settled: &CallSummary) {
        let waits_for_a_word = self.profile.cacheability == Cacheability::IfStated;
        match &settled.stored {
            Ok(_) if waits_for_a_word => self.count_run(reason),
            Ok(_) => {}
            Err(_) if waits_for_a_word => self.count(|counters| counters.bypassed(bypass::NEVER)),
            Err(reason) => self.count(|counters| counters.not_kept(reason)),
        }
    }

    fn count(&self, count: impl FnOnce(&mut super::Counters)) {
        self.session
            .count(&self.profile.tool.metadata().name, count);
    }
}

/// True if a caller that waited for a run may use its answer: only if the check at its end found that nothing
/// that it was built from had changed. A tool that opened a file before the caller asked, and then failed or
/// recorded its reads too late, may return an outdated answer. Failures are therefore not shared, either.
fn is_current_for_follower(settled: &CallSummary) -> bool {
    matches!(settled.stored, Ok(_) | Err(Reason::HoldsSecret))
}

/// True if the first text of a result begins with `prefix`.
fn begins_with(output: &ToolOutput, prefix: &str) -> bool {
    matches!(output.content.first(), Some(Block::Text { text, .. }) if text.starts_with(prefix))
}

/// The size of a result in a conversation, in bytes.
fn content_bytes(content: &[Block]) -> u64 {
    let size = |block: &Block| match block {
        Block::Text { text, .. } => text.len(),
        Block::Image(image) => match &image.source {
            cachalot_model::ImageSource::Url(url) => url.len(),
            cachalot_model::ImageSource::Inline { base64, .. } => base64.len(),
        },
        other => serde_json::to_string(other).map_or(0, |text| text.len()),
    };
    content.iter().map(|block| size(block) as u64).sum()
}
