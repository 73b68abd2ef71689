//! Execution of one call: served, run and stored, or only run.

use std::sync::Arc;

use cachalot_cache::{
    self as cache, Begun, How, Join, Kind, Mode, Policy, Product, Reason, Settled, Ticket, Witness,
};
use cachalot_core::{Canonical, Digest, Effects, Millis, Spend, Witnesses};
use cachalot_model::Block;
use serde_json::json;
use tokio::time::Instant;

use super::counters::bypass;
use super::deliveries::marker;
use super::kept::{self, failure};
use super::sessions::{Session, text_of};
use super::settings::Delivery;
use super::standing::{Profile, Standing};
use super::{CachedTools, defaults, force};
use crate::registry::{built_from, expires, lifetime, refuse, run_guarded};
use crate::tool::{Arguments, Context, Output};
use crate::toolbox::{Answer, Answered, Batch, Call, Prepared, Toolbox as _, Verdict};

/// The version of inputs and stored results: when it is raised, older results are never found.
const FORMAT: u32 = 1;

/// A result and its origin.
struct Done {
    output: Output,
    how: Answered,
    saved: Spend,
    /// The key and the digest of the result, if a marker may replace it.
    known_as: Option<(cache::Key, Digest)>,
    /// The witnesses of the result: first those that were recorded, finally those that are known to be
    /// complete.
    witnesses: Witnesses,
    /// The time until which it is as good as a new one.
    expires: Option<Millis>,
}

impl Done {
    /// Creates the result of a run with its recorded witnesses.
    fn ran(output: Output, why: Option<String>, witnesses: Witnesses) -> Self {
        Self {
            output,
            how: Answered::Ran(why),
            saved: Spend::default(),
            known_as: None,
            witnesses,
            expires: None,
        }
    }

    /// Sets the expiry.
    fn until(self, expires: Option<Millis>) -> Self {
        Self { expires, ..self }
    }
}

impl CachedTools {
    /// Answers one call, and notifies the watcher.
    pub(super) async fn perform(&self, prepared: Prepared, batch: &Batch) -> Answer {
        let Prepared { call, verdict } = prepared;
        batch.watcher.began(&call);
        let verdict = match batch.context.denial(&call.name) {
            Some(output) => Verdict::Refused(output),
            None => verdict,
        };
        let answer = match (verdict, self.profiles.get(&call.name)) {
            (Verdict::Refused(output), _) => refuse(call, output),
            // The call was prepared before the tool was removed.
            (Verdict::Ready { .. }, None) => {
                let output = match self.shown.prepare(call.clone()).verdict {
                    Verdict::Refused(output) => output,
                    Verdict::Ready { .. } => Output::error("there is no such tool any more"),
                };
                refuse(call, output)
            }
            (Verdict::Ready { arguments, .. }, Some(profile)) => {
                let began = Instant::now();
                let done = self.answer(&call, profile, arguments, batch).await;
                Answer {
                    call,
                    output: done.output,
                    how: done.how,
                    elapsed: began.elapsed(),
                    saved: done.saved,
                    witnesses: done.witnesses,
                    expires: done.expires,
                }
            }
        };
        batch.watcher.ended(&answer);
        answer
    }

    async fn answer(
        &self,
        call: &Call,
        profile: &Profile,
        mut arguments: Arguments,
        batch: &Batch,
    ) -> Done {
        let shared = &self.shared;
        let context = &batch.context;
        let forced = shared.settings.enabled && profile.takes_force && force::take(&mut arguments);
        let effects = profile.tool.effects(&arguments, context);
        if !shared.settings.enabled {
            let work = Work {
                tools: self,
                profile,
                effects: &effects,
            };
            let (output, noted) = work.run_apart(arguments, context).await;
            let witnesses = built_from(profile.tool.about(), &effects, &output, noted);
            let expires = expires(&output, lifetime(&*profile.tool), context.clock.now());
            return Done::ran(output, None, witnesses).until(expires);
        }
        let session = shared.sessions.of(
            &context.session,
            context.workspace.root(),
            &shared.settings,
            &shared.origins,
        );
        let asking = Asking {
            work: Work {
                tools: self,
                profile,
                effects: &effects,
            },
            session: &session,
            input: input(profile, &arguments, context),
            context,
            forced,
        };
        session.deliveries().reuses(&call.id);
        let done = asking.vouch(asking.answer(arguments).await);
        asking.deliver(done, call, batch)
    }
}

/// The input of a call: everything that can change its result, and nothing else.
fn input(profile: &Profile, arguments: &Arguments, context: &Context) -> Canonical {
    let about = profile.tool.about();
    let input = json!({
        "format": FORMAT,
        "origin": profile.origin,
        "version": about.version,
        "schema": profile.schema,
        "workspace": text_of(context.workspace.root()),
        "implicit": profile.tool.implicit_inputs(context),
        "arguments": defaults::filled_in(arguments, &about.parameters),
    });
    Canonical::sealed(&input, &context.seals)
}

/// A run of a tool.
#[derive(Clone, Copy)]
struct Work<'a> {
    tools: &'a CachedTools,
    profile: &'a Profile,
    effects: &'a Effects,
}

impl Work<'_> {
    /// Runs the tool; if it writes, all engines are notified before and after.
    async fn run(self, arguments: Arguments, context: &Context, witness: Witness) -> Output {
        let context = Context {
            witness,
            ..context.clone()
        };
        let running = run_guarded(&*self.profile.tool, arguments, &context);
        if self.effects.writes.is_nothing() {
            return running.await;
        }
        let raised = super::domains::raised(&self.effects.writes, context.workspace.root());
        let writers = &self.tools.shared.origins.writers;
        let write = writers.begin(raised).await;
        let output = running.await;
        write.end().await;
        output
    }

    /// Runs the tool with a witness of its own.
    async fn run_apart(self, arguments: Arguments, context: &Context) -> (Output, Witnesses) {
        let witness = Witness::default();
        let output = self.run(arguments, context, witness.clone()).await;
        (output, witness.witnesses())
    }
}

/// A call to the engine.
struct Asking<'a> {
    work: Work<'a>,
    session: &'a Arc<Session>,
    input: Canonical,
    context: &'a Context,
    forced: bool,
}

impl Asking<'_> {
    fn call(&self) -> cache::Call<'_> {
        cache::Call {
            kind: Kind::Tool,
            scope: &self.session.scope,
            name: &self.work.profile.tool.about().name,
            input: &self.input,
        }
    }

    /// The reason if the call must not use the cache.
    fn bypass(&self) -> Option<&'static str> {
        match self.work.profile.standing {
            Standing::Never(why) => Some(why),
            _ if !self.work.effects.writes.is_nothing() => Some(bypass::MAY_WRITE),
            _ => None,
        }
    }

    fn policy(&self) -> Policy {
        let standing = self.work.profile.standing;
        let shared = &self.work.tools.shared;
        Policy {
            mode: match shared.mode {
                Mode::On if self.forced => Mode::Refresh,
                mode => mode,
            },
            ttl: standing.ttl(),
            join: if self.shares_runs() {
                Join::Process
            } else {
                Join::Alone
            },
            max_bytes: shared.settings.max_bytes,
            domains: standing
                .domains(self.work.effects, self.context)
                .called(self.session.lasting),
            ..self.accounted()
        }
    }

    /// A policy that only contains the session of the call.
    fn accounted(&self) -> Policy {
        let session = self.context.session.as_str();
        Policy {
            session: (!session.is_empty()).then(|| session.into()),
            ..Policy::default()
        }
    }

    /// True if concurrent identical calls may share a run. False for a tool whose results do not last, and,
    /// if other users share the scope, for a tool that may declare only afterwards that its result is for
    /// this user only.
    fn shares_runs(&self) -> bool {
        let profile = self.work.profile;
        profile.standing != Standing::IfStated
            && (profile.is_built_in() || !self.is_shared_with_others())
    }

    fn is_shared_with_others(&self) -> bool {
        matches!(
            self.session.scope,
            cache::Scope::Workspace(_) | cache::Scope::Global
        )
    }

    async fn answer(&self, arguments: Arguments) -> Done {
        if let Some(why) = self.bypass() {
            return self.bypassed(arguments, why).await;
        }
        let mut policy = self.policy();
        loop {
            match self.session.engine.begin(&self.call(), &policy).await {
                Err(miss) => {
                    let output = Output::error(miss.to_string());
                    let why = Some(miss.reason.to_string());
                    return Done::ran(output, why, Witnesses::unknown("it did not run"));
                }
                Ok(Begun::Run(ticket)) => return self.lead(arguments, ticket).await,
                Ok(Begun::Served(outcome)) => {
                    let coalesced = outcome.how == How::Coalesced;
                    if coalesced && !is_as_good_as_ones_own(&outcome.settled().await) {
                        policy.join = Join::Alone;
                        continue;
                    }
                    match kept::read(&outcome.body).await {
                        Ok(output) => return self.served(output, &outcome).await,
                        // An entry that cannot be decoded has to be replaced.
                        Err(_) => policy.mode = Mode::Refresh,
                    }
                }
            }
        }
    }

    /// Runs a call without a lookup; it gets a ledger row like any call.
    async fn bypassed(&self, arguments: Arguments, why: &str) -> Done {
        let reason = Reason::Declined(why.to_owned());
        let engine = &self.session.engine;
        let ticket = engine.bypass(&self.call(), &self.accounted(), reason);
        self.count(|counters| counters.bypassed(why));
        let (output, noted) = self.work.run_apart(arguments, self.context).await;
        let spent = Spend::one(ticket.elapsed());
        if output.is_error {
            ticket.fail(failure(&output)).await;
        } else {
            let product = Product::kept(bytes::Bytes::new(), spent);
            ticket.finish(product).await;
        }
        let tool = &*self.work.profile.tool;
        let expires = expires(&output, lifetime(tool), self.context.clock.now());
        Done::ran(output, None, noted).until(expires)
    }

    /// Runs the tool on behalf of all callers of the same call.
    async fn lead(&self, arguments: Arguments, mut ticket: Ticket) -> Done {
        let reason = ticket.how().reason().cloned();
        let standing = self.work.profile.standing;
        if standing != Standing::IfStated {
            self.count_run(reason.as_ref());
        }
        let witness = ticket.witness().clone();
        let output = self
            .work
            .run(arguments, self.context, witness.clone())
            .await;
        let noted = witness.witnesses();
        let why = reason.as_ref().map(ToString::to_string);
        let spent = Spend::one(ticket.elapsed());
        if output.is_error {
            let settled = ticket.fail(failure(&output)).await;
            self.count_end(reason.as_ref(), &settled);
            return Done::ran(output, why, noted);
        }
        if let Some(lifetime) = output.lifetime {
            ticket.expire_within(lifetime);
        }
        let keep = if output.private && self.is_shared_with_others() {
            Err(Reason::Declined("it is for this user alone".to_owned()))
        } else {
            standing.keeps(&output, self.work.effects, &witness)
        };
        let (value, keep) = match kept::encode(&output) {
            Ok(value) => (value, keep),
            Err(why) => (bytes::Bytes::new(), Err(Reason::Declined(why))),
        };
        let known_as = self.known_as(&value);
        let expires = expires(&output, standing.ttl(), self.context.clock.now());
        let product = Product {
            keep,
            ..Product::kept(value, spent)
        };
        let settled = ticket.finish(product).await;
        self.count_end(reason.as_ref(), &settled);
        Done {
            known_as,
            ..Done::ran(output, why, noted).until(expires)
        }
    }

    /// Returns an answer of the engine.
    async fn served(&self, output: Output, outcome: &cache::Outcome) -> Done {
        let coalesced = outcome.how == How::Coalesced;
        let bytes = size_of(&output.content);
        self.count(|counters| {
            if coalesced {
                counters.coalesced += 1;
            } else {
                counters.hits += 1;
            }
            counters.bytes_served += bytes;
        });
        let known_as = match outcome.body.whole().await {
            Ok(value) => self.known_as(&value),
            Err(_) => None,
        };
        let settled = outcome.settled().await;
        let now = self.context.clock.now();
        Done {
            // A result that could not be stored has no expiry in the engine.
            expires: (settled.expires)
                .or_else(|| expires(&output, self.work.profile.standing.ttl(), now)),
            output,
            how: if coalesced {
                Answered::Coalesced
            } else {
                Answered::Hit
            },
            saved: settled.saved,
            known_as,
            witnesses: outcome.witnesses(),
        }
    }

    /// Replaces the recorded witnesses by those that are known to be complete. A result with a configured
    /// lifetime gets unknown witnesses, so that results built from it do not outlive it.
    fn vouch(&self, done: Done) -> Done {
        let Work {
            profile, effects, ..
        } = self.work;
        let witnesses = match profile.standing.ttl() {
            Some(_) => Witnesses::unknown("its results last for a time only"),
            None => built_from(profile.tool.about(), effects, &done.output, done.witnesses),
        };
        Done { witnesses, ..done }
    }

    fn known_as(&self, value: &[u8]) -> Option<(cache::Key, Digest)> {
        let marks = self.work.tools.shared.settings.delivery == Delivery::Marker;
        marks.then(|| (cache::Key::of(&self.call()), Digest::of(value)))
    }

    /// Returns the result in full, or a marker if the conversation contains it already.
    fn deliver(&self, mut done: Done, call: &Call, batch: &Batch) -> Done {
        let Some((key, content)) = done.known_as.take() else {
            return done;
        };
        let mut deliveries = self.session.deliveries();
        let size = size_of(&done.output.content);
        if !self.forced
            && let Some(note) = deliveries.mark(&key, content, &batch.verbatim, |id| {
                let note = marker(&call.name, id, self.work.profile.takes_force);
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
            Some(reason) => counters.missed(reason),
            None => {}
        });
    }

    /// Counts a finished run. Only now is it known if the result states its lifetime: if not, the lookup was
    /// pointless, and the call counts as a bypass.
    fn count_end(&self, reason: Option<&Reason>, settled: &Settled) {
        let waits_for_a_word = self.work.profile.standing == Standing::IfStated;
        match &settled.stored {
            Ok(_) if waits_for_a_word => self.count_run(reason),
            Ok(_) => {}
            Err(_) if waits_for_a_word => self.count(|counters| counters.bypassed(bypass::NEVER)),
            Err(reason) => self.count(|counters| counters.not_kept(reason)),
        }
    }

    fn count(&self, count: impl FnOnce(&mut super::Counters)) {
        self.session
            .count(&self.work.profile.tool.about().name, count);
    }
}

/// True if a caller that waited for a run may use its answer: only if the check at its end found that nothing
/// that it was built from had changed. A tool that opened a file before the caller asked, and then failed or
/// recorded its reads too late, may return an outdated answer. Failures are therefore not shared, either.
fn is_as_good_as_ones_own(settled: &Settled) -> bool {
    matches!(settled.stored, Ok(_) | Err(Reason::HoldsSecret))
}

/// The size of a result in a conversation, in bytes.
fn size_of(content: &[Block]) -> u64 {
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
