//! The parts of a gateway that all requests share.

use std::sync::Arc;

use cachalot_cache::Cache;
use cachalot_core::{Clock, DigestKey, SecretSet};
use cachalot_model::Catalog;
use cachalot_storage::PageGuard;
use parking_lot::RwLock;
use tokio::sync::Semaphore;

use crate::body_index::BodyIndex;
use crate::body_threads::BodyThreads;
use crate::budget::Budgets;
use crate::client::UpstreamClient;
use crate::command::CommandRun;
use crate::delivery::Lengths;
use crate::kept_answers::KeptAnswers;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::ordinals::Ordinals;
use crate::pieces::PieceIndex;
use crate::prefix_watch::PrefixWatch;
use crate::readiness::Readiness;
use crate::report::RequestReport;
use crate::request_body::BodyRoom;
use crate::retries::Retries;
use crate::settings::Settings;
use crate::telemetry::queue::SpanQueue;

/// The parts that all requests share.
pub(crate) struct Shared {
    pub(crate) guard: PageGuard,
    pub(crate) settings: RwLock<Arc<Settings>>,
    pub(crate) client: UpstreamClient,
    pub(crate) cache: Cache,
    pub(crate) budgets: Budgets,
    /// Answers that providers keep for keys of the gateway.
    pub(crate) kept_answers: KeptAnswers,
    pub(crate) readiness: Readiness,
    /// Set if requests are answered from the cache only.
    pub(crate) frozen: bool,
    /// The command that the gateway is for, if it is for one only.
    pub(crate) command: Option<CommandRun>,
    pub(crate) tenant_key: DigestKey,
    pub(crate) secret_set: Arc<SecretSet>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    pub(crate) ordinals: Arc<Ordinals>,
    pub(crate) retries: Arc<Retries>,
    pub(crate) lengths: Lengths,
    /// Room for WebSockets.
    pub(crate) tunnels: Arc<Semaphore>,
    pub(crate) bodies: BodyRoom,
    pub(crate) body_index: BodyIndex,
    pub(crate) pieces: PieceIndex,
    pub(crate) body_threads: BodyThreads,
    pub(crate) metrics: Arc<Metrics>,
    /// Spans that wait for their export.
    pub(crate) spans: SpanQueue,
    pub(crate) prefixes: Arc<PrefixWatch>,
    pub(crate) observe: Arc<dyn Fn(&RequestReport) + Send + Sync>,
}

impl Shared {
    /// Returns the current settings. A request keeps those with which it began.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read())
    }

    /// Returns the statistics in the text format of OpenMetrics.
    pub(crate) async fn metrics_text(&self) -> String {
        let store = self.readiness.store().await;
        self.metrics
            .text(&self.settings(), store, &self.cache.store_access())
    }
}
