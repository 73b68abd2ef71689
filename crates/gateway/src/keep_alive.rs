//! Renewal of the prefixes of idle conversations, before the provider's copies expire.
//!
//! A renewal is sent only if renewals would have saved more than they cost over the pauses of the same client that the
//! ledger knows. A pause that is longer than the lifetime of a prefix is recorded, with and without renewals, unless it is
//! open when the process ends. The last request of a conversation is held in memory, with its credential, while it may
//! be renewed; it is never written.

mod pauses;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{Ledger, Payment, Scope};
use cachalot_core::{Canonical, Clock, Cost, Digest, Millis, SecretSet, Spend};
use cachalot_model::Usage;
use cachalot_prefix::diagnosis::{CachedPrefix, renewal_interval};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::config::KeepAliveConfig;
use crate::metrics::Metrics;
use crate::renewal_notice::{AnsweredRequest, Notice, Renew, RenewalFault};
use crate::settings::Settings;
use pauses::{Pause, Pauses, Renewals};

/// Maximum number of notices that wait for the task. Further ones are dropped: nothing is renewed then.
const MAX_NOTICES: usize = 64;
/// Maximum number of idle conversations.
const MAX_CONVERSATIONS: usize = 1_024;
/// Maximum size of the requests that are held for renewals, in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Interval in which the task compares times with the clock, which a suspended machine may advance by much.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of pauses that are read from the ledger.
const MAX_READ_PAUSES: u32 = 10_000;
/// The member of a row of the ledger with the length of a pause.
const PAUSE: &str = "pause_ms";

/// Creates the channel to the task.
pub(crate) fn channel() -> (mpsc::Sender<Notice>, mpsc::Receiver<Notice>) {
    mpsc::channel(MAX_NOTICES)
}

/// The task, and what it needs of a gateway.
pub(crate) struct KeepAlive {
    pub(crate) sender: mpsc::WeakSender<Notice>,
    /// Returns the current settings of the gateway; without one, the task ends.
    pub(crate) settings: Box<dyn Fn() -> Option<Arc<Settings>> + Send>,
    /// Notes that the prefix of the conversation with this number was read at a time.
    pub(crate) note_read: Box<dyn Fn(u64, Millis) + Send>,
    pub(crate) ledger: Ledger,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) secret_set: Arc<SecretSet>,
    pub(crate) idle: IdleConversations,
}

/// The idle conversations, and the pauses of earlier ones.
#[derive(Default)]
pub(crate) struct IdleConversations {
    /// By number: the one that was used last has the highest.
    conversations: BTreeMap<u64, IdleConversation>,
    pauses: Pauses,
    /// Upstreams and models that have refused a renewal.
    refused: HashSet<(String, String)>,
}

struct IdleConversation {
    /// The time of its last request.
    at: Millis,
    client: String,
    name: String,
    prefix: Digest,
    /// The upstream and the model.
    model: (String, String),
    cached: CachedPrefix,
    until: Millis,
    /// The last time when its prefix was read.
    used: Millis,
    /// The number of renewals in this pause, and their estimated cost in picodollars.
    renewals: u64,
    spent: u64,
    state: State,
}

enum State {
    /// Held for the next renewal.
    Renewable(Arc<dyn Renew>),
    /// A renewal is in progress.
    Renewing(Arc<dyn Renew>),
    /// Not renewed any more in this pause, of which only the length is of interest.
    Observed,
    /// The next request was sent at this time.
    Continued(Millis),
}

impl KeepAlive {
    /// Runs until the gateway is dropped.
    pub(crate) async fn run(mut self, mut notices: mpsc::Receiver<Notice>) {
        let mut has_read = false;
        loop {
            let is_idle = self.idle.conversations.is_empty();
            let notice = tokio::select! {
                notice = notices.recv() => match notice {
                    Some(notice) => Some(notice),
                    None => return,
                },
                () = tokio::time::sleep(POLL_INTERVAL), if !is_idle => None,
            };
            // Not read by a gateway that renews nothing.
            if !std::mem::replace(&mut has_read, true) {
                self.read_pauses().await;
            }
            match notice {
                Some(Notice::Continued(number, at)) => self.idle.continued(number, at),
                Some(Notice::Answered(request)) => self.answered(*request),
                Some(Notice::Renewed {
                    number,
                    at,
                    result,
                    model,
                }) => self.renewed(number, at, result, model),
                None => {}
            }
            self.end_long_pauses();
            if self.send_due().is_none() {
                return;
            }
        }
    }

    async fn read_pauses(&mut self) {
        let ledger = self.ledger.clone();
        let read = move || ledger.payments_with(PAUSE, MAX_READ_PAUSES);
        // Without them, nothing is renewed until new ones are known.
        let Ok(Ok(rows)) = tokio::task::spawn_blocking(read).await else {
            return;
        };
        for row in rows {
            let known = |name: &str| row.input.as_ref().and_then(|input| input.get(name));
            let length = known(PAUSE).and_then(Value::as_i64);
            let is_resumed = known("resumed").and_then(Value::as_bool);
            if let (Some(length), Some(is_resumed)) = (length, is_resumed)
                && let Some(client) = row.scope.strip_prefix("user:")
            {
                self.idle.pauses.add(client, Pause { length, is_resumed });
            }
        }
    }

    /// Ends the pause of a conversation, and begins the next one.
    fn answered(&mut self, request: AnsweredRequest) {
        let before = request.previous_number;
        if let Some(ended) = before.and_then(|number| self.idle.conversations.remove(&number)) {
            let length = request.at.saturating_sub(ended.at);
            let saved = ended.saved_by(request.at, request.read);
            self.end_pause(&ended, length, true, saved);
        }
        let until = millis(request.config.until);
        let Some(cached) = request
            .cached
            .filter(|cached| millis(cached.lifetime) < until)
        else {
            return;
        };
        let renewal = request.renewal;
        let conversation = IdleConversation {
            at: request.at,
            client: request.client,
            name: request.conversation,
            prefix: request.prefix,
            model: (renewal.upstream().to_owned(), renewal.model().to_owned()),
            cached,
            until,
            used: request.at,
            renewals: 0,
            spent: 0,
            state: State::Renewable(renewal),
        };
        self.idle.add(request.number, conversation);
    }

    fn renewed(
        &mut self,
        number: u64,
        at: Millis,
        result: Result<Option<Usage>, RenewalFault>,
        model: (String, String),
    ) {
        if result.is_ok() {
            self.metrics.prefix_renewals.inc();
        }
        if let Err(RenewalFault::Unsupported(reason)) = &result {
            tracing::debug!(
                upstream = model.0,
                model = model.1,
                reason,
                "prefixes are not renewed"
            );
            self.idle.refused.insert(model);
        }
        let Some(conversation) = self.idle.conversations.get_mut(&number) else {
            return;
        };
        let usage = result.unwrap_or_else(|fault| {
            tracing::debug!(?fault, "a prefix is not renewed");
            None
        });
        let cached = &conversation.cached;
        // Otherwise the provider had dropped it, and has written it again.
        let was_read = usage.is_some_and(|usage| usage.cache_read >= cached.tokens / 2);
        if let State::Renewing(renewal) = &conversation.state {
            conversation.state = if was_read {
                State::Renewable(Arc::clone(renewal))
            } else {
                State::Observed
            };
        }
        if usage.is_some() {
            conversation.renewals += 1;
            conversation.spent += cached.renewal_cost.picodollars;
            conversation.used = at;
            (self.note_read)(number, at);
        }
    }

    /// Records the end of a pause that was longer than the lifetime of the prefix.
    fn end_pause(
        &mut self,
        ended: &IdleConversation,
        length: Millis,
        is_resumed: bool,
        saved: Cost,
    ) {
        if length <= millis(ended.cached.lifetime) {
            return;
        }
        self.idle
            .pauses
            .add(&ended.client, Pause { length, is_resumed });
        let (upstream, model) = &ended.model;
        let known = json!({
            "keep_alive": "pause", PAUSE: length, "resumed": is_resumed, "renewals": ended.renewals,
            "session": ended.name, "upstream": upstream,
        });
        self.ledger.record_payment(Payment {
            at: ended.at.saturating_add(length),
            model: &format!("{upstream}/{model}"),
            scope: &Scope::User(ended.client.clone()),
            session: &ended.name,
            on_behalf_of: None,
            prefix: ended.prefix,
            input: Canonical::value(&known),
            reason: None,
            // Each renewal has a row of its own.
            paid: Spend::default(),
            saved: Spend {
                cost: saved,
                ..Spend::default()
            },
            secret_set: &self.secret_set,
        });
    }

    /// Ends the pauses that are longer than renewals could bridge, and those whose next request was not answered.
    fn end_long_pauses(&mut self) {
        let now = self.clock.now();
        let is_over = |idle: &IdleConversation| {
            let is_renewing = matches!(idle.state, State::Renewing(_));
            let longest = idle.until.saturating_add(millis(idle.cached.lifetime));
            !is_renewing && now.saturating_sub(idle.at) > longest
        };
        let over = self
            .idle
            .conversations
            .extract_if(.., |_, idle| is_over(idle));
        let over: Vec<IdleConversation> = over.map(|(_, idle)| idle).collect();
        for ended in over {
            let (length, is_resumed) = match ended.state {
                State::Continued(at) => (at.saturating_sub(ended.at), true),
                _ => (now.saturating_sub(ended.at), false),
            };
            self.end_pause(&ended, length, is_resumed, Cost::default());
        }
    }

    /// Sends the renewals that are due; `None` if the gateway has ended.
    fn send_due(&mut self) -> Option<()> {
        let settings = (self.settings)()?;
        let now = self.clock.now();
        let idle = &mut self.idle;
        for (number, conversation) in &mut idle.conversations {
            let State::Renewable(renewal) = &conversation.state else {
                continue;
            };
            // Whatever has changed in them: a key may be withdrawn, and a credential replaced.
            let is_current = renewal.settings() == settings.number;
            let config = settings.prefix.keep_alive.filter(|_| is_current);
            let is_refused = idle.refused.contains(&conversation.model);
            if config.is_some() && !is_refused && !conversation.is_due(now) {
                continue;
            }
            let renewals = config.and_then(|config| conversation.renewals(config, now));
            let pauses = idle.pauses.of(&conversation.client);
            let pays = renewals.is_some_and(|renewals| renewals.pay(pauses));
            let sender = self.sender.upgrade();
            let (true, false, Some(sender)) = (pays, is_refused, sender) else {
                // Drops the request with its credential.
                conversation.state = State::Observed;
                continue;
            };
            tracing::debug!(conversation = conversation.name, "a prefix is renewed");
            let (renewal, model) = (Arc::clone(renewal), conversation.model.clone());
            conversation.state = State::Renewing(Arc::clone(&renewal));
            let number = *number;
            tokio::spawn(async move {
                let result = renewal.send().await;
                let notice = Notice::Renewed {
                    number,
                    at: now,
                    result,
                    model,
                };
                // An error means that the gateway has ended.
                let _ = sender.send(notice).await;
            });
        }
        Some(())
    }
}

impl IdleConversations {
    /// Adds a conversation. It takes the place of another one of the session, and the ones that were used least recently
    /// make room for it.
    fn add(&mut self, number: u64, conversation: IdleConversation) {
        let is_same = |other: &IdleConversation| {
            (&other.client, &other.name) == (&conversation.client, &conversation.name)
        };
        self.conversations.retain(|_, other| !is_same(other));
        self.conversations.insert(number, conversation);
        let mut held: usize = self
            .conversations
            .values()
            .map(IdleConversation::bytes)
            .sum();
        while held > MAX_BYTES || self.conversations.len() > MAX_CONVERSATIONS {
            let Some((_, oldest)) = self.conversations.pop_first() else {
                return;
            };
            held -= oldest.bytes();
        }
    }

    /// Notes that the next request of a conversation was sent: from then on, it is not idle.
    fn continued(&mut self, number: u64, at: Millis) {
        if let Some(conversation) = self.conversations.get_mut(&number) {
            conversation.state = State::Continued(at);
        }
    }
}

impl IdleConversation {
    /// The size of the request that is held, in bytes.
    fn bytes(&self) -> usize {
        match &self.state {
            State::Renewable(renewal) | State::Renewing(renewal) => renewal.bytes(),
            State::Observed | State::Continued(_) => 0,
        }
    }

    /// The time between two renewals.
    fn interval(&self) -> Millis {
        renewal_interval(millis(self.cached.lifetime))
    }

    fn is_due(&self, now: Millis) -> bool {
        now.saturating_sub(self.used) >= self.interval()
    }

    /// Returns the cost that the renewals have saved a request at this time, of which the provider has read so many tokens
    /// from its cache.
    fn saved_by(&self, at: Millis, read: u64) -> Cost {
        let is_kept = at.saturating_sub(self.used) <= millis(self.cached.lifetime);
        if self.renewals == 0 || !is_kept {
            return Cost::default();
        }
        let tokens = self.cached.tokens.max(1);
        let all = u128::from(self.cached.rewriting_cost.picodollars);
        let saved = all * u128::from(read.min(tokens)) / u128::from(tokens);
        Cost::from_picodollars(u64::try_from(saved).unwrap_or(u64::MAX))
    }

    /// Returns the renewals that may be sent from now on; `None` if it is too late.
    fn renewals(&self, config: KeepAliveConfig, now: Millis) -> Option<Renewals> {
        let (lifetime, interval) = (millis(self.cached.lifetime), self.interval());
        let idle = now.saturating_sub(self.at);
        let left = millis(config.until).saturating_sub(idle);
        let cost = self.cached.renewal_cost.picodollars;
        if left < 0 || now.saturating_sub(self.used) >= lifetime {
            return None;
        }
        let in_time = (left / interval.max(1) + 1).unsigned_abs();
        let affordable = config.max.saturating_sub(self.spent) / cost.max(1);
        Some(Renewals {
            idle,
            interval,
            lifetime,
            most: in_time.min(affordable),
            cost,
            saving: self.cached.rewriting_cost.picodollars,
        })
    }
}

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}
