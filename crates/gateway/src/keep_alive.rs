//! Renewal of the prefixes of idle conversations, before the provider's copies expire.
//!
//! A renewal is sent only if renewals would have saved more than they cost over the pauses of the same client that the
//! ledger knows. Every pause that is longer than the lifetime of a prefix is recorded, with and without renewals. The
//! last request of a conversation is held in memory, with its credential, while it may be renewed; it is never written.

mod pauses;
mod renewal;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use cachalot_cache::{Ledger, Payment, Scope};
use cachalot_core::{Canonical, Clock, Cost, Digest, Millis, SecretSet, Spend};
use cachalot_prefix::diagnosis::CachedPrefix;
use cachalot_prefix::record;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::config::KeepAliveConfig;
use crate::handler::Handler;
use crate::metrics::Metrics;
use crate::prefix_watch::PrefixWatch;
use pauses::{Pause, Pauses, Renewals};
pub(crate) use renewal::Renewal;
use renewal::Renewed;

/// Maximum number of notices that wait for the task. Further ones are dropped: nothing is renewed then.
const MAX_NOTICES: usize = 1_024;
/// Maximum number of idle conversations.
const MAX_CONVERSATIONS: usize = 1_024;
/// Maximum size of the requests that are held for renewals, in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Interval in which the task compares times with the clock, which a suspended machine may advance by much.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Part of the lifetime of a prefix that is left when it is renewed.
const MARGIN: i64 = 10;
/// Maximum number of pauses that are read from the ledger at the start.
const MAX_READ_PAUSES: u32 = 10_000;
/// The member of a row of the ledger with the length of a pause.
const PAUSE: &str = "pause_ms";

/// A request that was answered.
pub(crate) struct AnsweredRequest {
    /// The number of its conversation, until the next answer in it.
    pub(crate) number: u64,
    /// The number that the conversation had before the request.
    pub(crate) previous_number: Option<u64>,
    pub(crate) at: Millis,
    /// The client.
    pub(crate) client: String,
    pub(crate) conversation: String,
    /// The digest of everything that was sent.
    pub(crate) prefix: Digest,
    pub(crate) cached: Option<CachedPrefix>,
    /// The tokens that the provider read from its cache.
    pub(crate) read: u64,
    pub(crate) config: KeepAliveConfig,
    pub(crate) renewal: Arc<Renewal>,
}

/// Messages to the task.
pub(crate) enum Notice {
    Answered(Box<AnsweredRequest>),
    Renewed {
        number: u64,
        /// The time when the renewal was sent.
        at: Millis,
        result: Result<Renewed, String>,
        request: Arc<AnsweredRequest>,
    },
}

/// Creates the channel to the task.
pub(crate) fn channel() -> (mpsc::Sender<Notice>, mpsc::Receiver<Notice>) {
    mpsc::channel(MAX_NOTICES)
}

/// The task, and what it needs of a gateway.
pub(crate) struct KeepAlive {
    pub(crate) sender: mpsc::WeakSender<Notice>,
    /// The gateway, whose settings and keys may change; without it, the task ends.
    pub(crate) handler: Weak<Handler>,
    pub(crate) prefixes: Weak<PrefixWatch>,
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
    request: Arc<AnsweredRequest>,
    cached: CachedPrefix,
    /// The last time when its prefix was read.
    used: Millis,
    /// The number of renewals in this pause, and their cost in picodollars.
    renewals: u64,
    spent: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Renewable,
    /// A renewal is in progress.
    Renewing,
    /// Not renewed any more in this pause, of which only the length is of interest.
    Observed,
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
                Some(Notice::Answered(request)) => self.answered(*request),
                Some(Notice::Renewed {
                    number,
                    at,
                    result,
                    request,
                }) => self.renewed(number, at, result, &request),
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
            let length = request.at.saturating_sub(ended.request.at);
            let is_kept = ended.renewals > 0 && request.read >= ended.cached.tokens / 2;
            self.end_pause(&ended, length, true, is_kept);
        }
        let until = millis(request.config.until);
        let Some(cached) = request
            .cached
            .filter(|cached| millis(cached.lifetime) < until)
        else {
            return;
        };
        let (number, used) = (request.number, request.at);
        let model = (
            request.renewal.upstream().to_owned(),
            request.renewal.model.clone(),
        );
        let is_refused = self.idle.refused.contains(&model);
        let conversation = IdleConversation {
            request: Arc::new(request),
            cached,
            used,
            renewals: 0,
            spent: 0,
            state: if is_refused {
                State::Observed
            } else {
                State::Renewable
            },
        };
        self.idle.add(number, conversation);
    }

    fn renewed(
        &mut self,
        number: u64,
        at: Millis,
        result: Result<Renewed, String>,
        request: &AnsweredRequest,
    ) {
        let conversation = self.idle.conversations.get_mut(&number);
        let renewed = match result {
            Ok(renewed) => renewed,
            Err(reason) => {
                tracing::debug!(
                    conversation = request.conversation,
                    reason,
                    "a prefix is not renewed"
                );
                let renewal = &request.renewal;
                let model = (renewal.upstream().to_owned(), renewal.model.clone());
                self.idle.refused.insert(model);
                if let Some(conversation) = conversation {
                    conversation.state = State::Observed;
                }
                return;
            }
        };
        self.metrics.prefix_renewals.inc();
        let read = renewed.usage.map_or(0, |usage| usage.cache_read);
        if let Some(conversation) = conversation {
            conversation.renewals += 1;
            conversation.spent = conversation
                .spent
                .saturating_add(renewed.spend.cost.picodollars);
            conversation.used = at;
            // The provider had dropped it, and has written it again.
            let was_read = read >= conversation.cached.tokens / 2;
            let is_known = renewed.unpriced.is_none();
            conversation.state = if was_read && is_known {
                State::Renewable
            } else {
                State::Observed
            };
            if let Some(prefixes) = self.prefixes.upgrade() {
                prefixes.renewed(number, at);
            }
        }
        let mut known = record::members(renewed.usage, None);
        known.insert("keep_alive".to_owned(), json!("renewal"));
        self.record(request, at, known, renewed.spend, Spend::default());
    }

    /// Records the end of a pause that was longer than the lifetime of the prefix.
    fn end_pause(
        &mut self,
        ended: &IdleConversation,
        length: Millis,
        is_resumed: bool,
        is_kept: bool,
    ) {
        if length <= millis(ended.cached.lifetime) {
            return;
        }
        let request = &ended.request;
        self.idle
            .pauses
            .add(&request.client, Pause { length, is_resumed });
        let known = json!({
            "keep_alive": "pause", PAUSE: length, "resumed": is_resumed, "renewals": ended.renewals,
        });
        let saved = Spend {
            cost: if is_kept {
                ended.cached.rewriting_cost
            } else {
                Cost::default()
            },
            ..Spend::default()
        };
        let known = known.as_object().cloned().unwrap_or_default();
        let at = request.at.saturating_add(length);
        self.record(request, at, known, Spend::default(), saved);
    }

    fn record(
        &self,
        request: &AnsweredRequest,
        at: Millis,
        mut known: serde_json::Map<String, Value>,
        paid: Spend,
        saved: Spend,
    ) {
        let renewal = &request.renewal;
        known.insert("session".to_owned(), json!(request.conversation));
        known.insert("upstream".to_owned(), json!(renewal.upstream()));
        self.ledger.record_payment(Payment {
            at,
            model: &format!("{}/{}", renewal.upstream(), renewal.model),
            scope: &Scope::User(request.client.clone()),
            session: &request.conversation,
            on_behalf_of: None,
            prefix: request.prefix,
            input: Canonical::value(&known.into()),
            reason: None,
            paid,
            saved,
            secret_set: &self.secret_set,
        });
    }

    /// Ends the pauses that are longer than renewals could bridge.
    fn end_long_pauses(&mut self) {
        let now = self.clock.now();
        let is_over = |conversation: &IdleConversation| {
            let longest =
                millis(conversation.request.config.until) + millis(conversation.cached.lifetime);
            let length = now.saturating_sub(conversation.request.at);
            conversation.state != State::Renewing && length > longest
        };
        let over = self.idle.conversations.iter();
        let over = over.filter(|(_, conversation)| is_over(conversation));
        let over: Vec<u64> = over.map(|(number, _)| *number).collect();
        for number in over {
            if let Some(ended) = self.idle.conversations.remove(&number) {
                let length = now.saturating_sub(ended.request.at);
                self.end_pause(&ended, length, false, false);
            }
        }
    }

    /// Sends the renewals that are due; `None` if the gateway has ended.
    fn send_due(&mut self) -> Option<()> {
        let handler = self.handler.upgrade()?;
        let settings = handler.shared.settings();
        let now = self.clock.now();
        let idle = &mut self.idle;
        for (number, conversation) in &mut idle.conversations {
            if conversation.state != State::Renewable || !conversation.is_due(now) {
                continue;
            }
            let request = &conversation.request;
            // Both may have been removed from the configuration in the meantime.
            let key = request.renewal.payer.as_ref().map(|payer| payer.key.name());
            let has_key =
                key.is_none_or(|key| settings.keys.iter().any(|other| other.name() == key));
            let config = settings.prefix.keep_alive.filter(|_| has_key);
            let renewals = config.and_then(|config| conversation.renewals(config, now));
            let pauses = idle.pauses.of(&request.client);
            let Some(sender) = self.sender.upgrade() else {
                return Some(());
            };
            if !renewals.is_some_and(|renewals| renewals.pay(pauses)) {
                conversation.state = State::Observed;
                continue;
            }
            tracing::debug!(conversation = request.conversation, "a prefix is renewed");
            conversation.state = State::Renewing;
            let (number, request) = (*number, Arc::clone(request));
            tokio::spawn(async move {
                let result = request.renewal.send().await;
                let notice = Notice::Renewed {
                    number,
                    at: now,
                    result,
                    request,
                };
                // An error means that the gateway has ended.
                let _ = sender.send(notice).await;
            });
        }
        Some(())
    }
}

impl IdleConversations {
    /// Adds a conversation. The ones that were used least recently make room for it.
    fn add(&mut self, number: u64, conversation: IdleConversation) {
        self.conversations.insert(number, conversation);
        let bytes =
            |conversation: &IdleConversation| conversation.request.renewal.outbound.body().len();
        let mut held: usize = self.conversations.values().map(bytes).sum();
        while held > MAX_BYTES || self.conversations.len() > MAX_CONVERSATIONS {
            let Some((_, oldest)) = self.conversations.pop_first() else {
                return;
            };
            held -= bytes(&oldest);
        }
    }
}

impl IdleConversation {
    /// The time between two renewals.
    fn interval(&self) -> Millis {
        let lifetime = millis(self.cached.lifetime);
        lifetime - lifetime / MARGIN
    }

    fn is_due(&self, now: Millis) -> bool {
        now.saturating_sub(self.used) >= self.interval()
    }

    /// Returns the renewals that may be sent from now on; `None` if it is too late.
    fn renewals(&self, config: KeepAliveConfig, now: Millis) -> Option<Renewals> {
        let (lifetime, interval) = (millis(self.cached.lifetime), self.interval());
        let idle = now.saturating_sub(self.request.at);
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
