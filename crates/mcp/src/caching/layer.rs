//! The layer that puts the engine in front of a server.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use cachalot_cache::{Cache, CacheMode};
use cachalot_core::{Clock, DigestKey, SecretSet};
use tokio::sync::mpsc;

use super::identity::ServerIdentity;
use super::invalidation::Invalidation;
use super::shared::Shared;
use super::upstream::CachingUpstream;
use crate::proxy_policy::{ServerPolicy, policy_digest};
use crate::relay::{FrameKind, Upstream};

/// Messages for clients that wait to be taken.
const WAITING: usize = 1_024;

/// The parts of a layer.
#[derive(Clone)]
pub struct CachingOptions {
    /// The engine.
    pub cache: Cache,
    /// Permitted cache operations.
    pub mode: CacheMode,
    /// The policy of the server.
    pub policy: ServerPolicy,
    /// The identity of the server.
    pub server: ServerIdentity,
    /// The key under which credentials are digested.
    pub digest_key: DigestKey,
    /// Secrets: neither requests nor answers that contain one are stored.
    pub secret_set: Arc<SecretSet>,
    /// The clock of the engine.
    pub clock: Arc<dyn Clock>,
    /// Receives warnings of one sentence each, about entries of the policy without effect.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The layer that puts the engine in front of a server.
pub struct CachingLayer(CachingOptions);

impl CachingLayer {
    /// Creates a layer.
    #[must_use]
    pub fn new(options: CachingOptions) -> Self {
        Self(options)
    }

    /// Puts the engine in front of a server. To be called within a runtime. Takes the messages of the server that belong
    /// to no request.
    #[must_use]
    pub fn wrap(self, upstream: Arc<dyn Upstream>) -> Arc<CachingUpstream> {
        let CachingOptions {
            cache,
            mode,
            policy,
            server,
            digest_key,
            secret_set,
            clock,
            warn,
        } = self.0;
        let (sender, receiver) = mpsc::channel(WAITING);
        let instance = instance(&digest_key);
        let shared = Arc::new(Shared {
            invalidation: Invalidation::new(cache.clone(), &server.domain),
            upstream,
            cache,
            mode,
            hinted_policy: policy_digest::of_hinted(&policy),
            policy,
            keyed_identity: server.keyed(&secret_set),
            identity: server,
            digest_key,
            secret_set,
            clock,
            warn,
            sessions: Default::default(),
            definitions: Default::default(),
            open_tasks: Default::default(),
            losses: AtomicU64::new(0),
            instance,
            root_requests: Default::default(),
            server_requests: AtomicU64::new(0),
            in_flight: Default::default(),
            order: Default::default(),
            writes: AtomicU64::new(0),
            warned: Default::default(),
            unattached: sender.clone(),
        });
        if let Some(mut unattached) = shared.upstream.take_unattached() {
            let shared = Arc::downgrade(&shared);
            tokio::spawn(async move {
                while let Some(frame) = unattached.recv().await {
                    let Some(shared) = shared.upgrade() else {
                        return;
                    };
                    shared.notice(&frame);
                    if frame.kind() == FrameKind::Request && frame.method() != "ping" {
                        shared.note_server_request();
                    }
                    drop(shared);
                    // After the expiry: the next request of a client that reads the message is a miss.
                    if sender.send(frame).await.is_err() {
                        return;
                    }
                }
            });
        }
        Arc::new(CachingUpstream::new(shared, receiver))
    }
}

/// Returns a name that no other layer has, in this process or in others.
fn instance(key: &DigestKey) -> String {
    let random = DigestKey::ephemeral().map(|random| random.check_value().to_hex());
    let name = random.unwrap_or_else(|_| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let since = since.map_or(0, |since| since.as_nanos());
        format!("{} {since}", std::process::id())
    });
    key.digest(name.as_bytes()).to_hex()[..16].to_owned()
}
