//! Messages to the task that renews the prefixes of idle conversations.

use std::sync::Arc;

use cachalot_core::{Digest, Millis};
use cachalot_model::Usage;
use cachalot_prefix::diagnosis::CachedPrefix;
use futures_util::future::BoxFuture;

use crate::config::KeepAliveConfig;

/// A request that renews a prefix. It holds the credential of its client, in memory only.
pub(crate) trait Renew: Send + Sync {
    /// Sends it, and returns the usage of its answer. It is paid for and recorded as any request.
    ///
    /// # Errors
    /// The upstream has not answered, or with an error.
    fn send(&self) -> BoxFuture<'_, Result<Option<Usage>, RenewalFault>>;

    /// The name of the upstream.
    fn upstream(&self) -> &str;

    fn model(&self) -> &str;

    /// Its size in bytes.
    fn bytes(&self) -> usize;

    /// The number of the settings with which the conversation's request was sent: others may have another credential or
    /// address.
    fn settings(&self) -> u64;
}

/// The reason why a prefix was not renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RenewalFault {
    /// The upstream refuses such a request to the model, or there is none.
    Unsupported(String),
    /// It may succeed for another conversation or at another time.
    Failed(String),
}

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
    pub(crate) renewal: Arc<dyn Renew>,
}

/// Messages to the task.
pub(crate) enum Notice {
    /// The next request of the conversation with this number was sent, at this time.
    Continued(u64, Millis),
    Answered(Box<AnsweredRequest>),
    Renewed {
        number: u64,
        /// The time when the renewal was sent.
        at: Millis,
        result: Result<Option<Usage>, RenewalFault>,
        /// The upstream and the model.
        model: (String, String),
    },
}
