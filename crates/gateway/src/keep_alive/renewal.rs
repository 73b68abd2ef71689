//! One request that renews a prefix.

use std::sync::Arc;
use std::time::Duration;

use cachalot_core::Spend;
use cachalot_model::Usage;
use http_body_util::{BodyExt as _, Limited};
use tokio::time::timeout;

use crate::answer::AnswerReader;
use crate::billing::Billing;
use crate::client::UpstreamClient;
use crate::endpoint::Endpoint;
use crate::error_body::ErrorBody;
use crate::metrics::{Metrics, Payment};
use crate::outbound::Outbound;
use crate::payer::Payer;
use crate::price_bound;
use crate::telemetry::upstream_span::UpstreamSpan;

/// Maximum size of an answer, in bytes.
const MAX_ANSWER: usize = 1 << 20;
/// Time in which an answer has to be complete.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);

/// The last request of a conversation, with the credential of its client, and everything that renewing its prefix needs.
/// Exists in memory only.
pub(crate) struct Renewal {
    pub(crate) outbound: Outbound,
    pub(crate) endpoint: Endpoint,
    pub(crate) model: String,
    pub(crate) client: UpstreamClient,
    pub(crate) billing: Billing,
    /// The key of the gateway that pays.
    pub(crate) payer: Option<Payer>,
    pub(crate) metrics: Arc<Metrics>,
}

/// The answer to a renewal.
pub(crate) struct Renewed {
    pub(crate) spend: Spend,
    /// The reason why the cost is not known.
    pub(crate) unpriced: Option<String>,
    pub(crate) usage: Option<Usage>,
}

impl Renewal {
    /// Returns the name of the upstream.
    pub(crate) fn upstream(&self) -> &str {
        self.outbound.upstream.name()
    }

    /// Sends the renewal.
    ///
    /// # Errors
    /// The reason why nothing was renewed; nothing was paid for then, as far as known.
    pub(crate) async fn send(&self) -> Result<Renewed, String> {
        let outbound = self.outbound.renewal(self.endpoint, &self.model)?;
        let refused = |error: ErrorBody| error.message;
        let reservation = match &self.payer {
            Some(payer) => payer.reserve().await.map_err(refused)?,
            None => None,
        };
        let span = UpstreamSpan::none();
        let upstream = &outbound.upstream;
        let sent = self
            .client
            .send_once(upstream, outbound.request(), &span)
            .await;
        let (parts, body) = sent.map_err(refused)?.into_parts();
        if !parts.status.is_success() {
            if let Some(reservation) = reservation {
                reservation.settle(0).await;
            }
            return Err(format!("the upstream answered {}", parts.status.as_u16()));
        }
        let mut reader = AnswerReader::new(self.endpoint, false, parts.status, &parts.headers);
        // Without its end, the answer has no usage, and the renewal is unpriced.
        if let Ok(Ok(body)) = timeout(ANSWER_WITHIN, Limited::new(body, MAX_ANSWER).collect()).await
        {
            reader.push(&body.to_bytes());
        }
        let report = reader.finish();
        let charged = self.billing.charge(&report);
        let payment = Payment {
            upstream: self.upstream(),
            model: &self.model,
            key: self.payer.as_ref().map_or("", |payer| payer.key.name()),
        };
        self.metrics.pay(payment, &charged);
        if let Some(payer) = &self.payer {
            payer.count(charged.spend);
        }
        let cost = price_bound::picodollars(charged.spend.cost);
        if let (Some(reservation), Some(cost)) = (reservation, cost) {
            reservation.settle(cost).await;
        }
        Ok(Renewed {
            spend: charged.spend,
            unpriced: charged.unpriced,
            usage: report.usage,
        })
    }
}
