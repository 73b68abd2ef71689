//! One request that renews a prefix.

use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{Cache, Policy, Reason};
use cachalot_model::Usage;
use futures_util::future::BoxFuture;
use http::{HeaderValue, StatusCode};
use http_body_util::BodyExt as _;
use tokio::time::timeout;

use crate::answer::AnswerReader;
use crate::answer_form::AnswerForm;
use crate::billing::Billing;
use crate::call::CallIdentity;
use crate::client::UpstreamClient;
use crate::endpoint::Endpoint;
use crate::metrics::Metrics;
use crate::outbound::Outbound;
use crate::pass;
use crate::payer::Payer;
use crate::renewal_notice::{Renew, RenewalFault};
use crate::run::RunContext;
use crate::telemetry::upstream_span::UpstreamSpan;

/// Time in which an answer has to be complete.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);
/// The reason why the ledger has a row of the request.
const REASON: &str = "it renews the prefix of an idle conversation in the provider's cache";

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
    pub(crate) is_of_operator: bool,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) cache: Cache,
    /// The identity of the renewals.
    pub(crate) identity: CallIdentity,
    pub(crate) policy: Policy,
    pub(crate) idle_timeout: Duration,
    /// The number of the settings with which the request was sent: others may have another credential or address.
    pub(crate) settings: u64,
}

impl Renewal {
    async fn send_once(&self) -> Result<Option<Usage>, RenewalFault> {
        let outbound = self.outbound.renewal(self.endpoint, &self.model);
        let outbound = outbound.map_err(|reason| RenewalFault::Unsupported(reason.to_owned()))?;
        let reason = Reason::Declined(REASON.into());
        let call = self.identity.call();
        let ticket = self
            .cache
            .bypass(self.identity.keyed(&call), &self.policy, reason.clone());
        let answered = async {
            let none = HeaderValue::from_static("");
            let sent = pass::read(self.context(), &outbound, ticket, reason, none).await;
            let (parts, mut body) = sent.map_err(|fault| fault.message)?.into_parts();
            let mut reader = AnswerReader::new(self.endpoint, false, parts.status, &parts.headers);
            // To its end, with which the request is paid for.
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| error.to_string())?;
                if let Ok(data) = frame.into_data() {
                    reader.push(&data);
                }
            }
            Ok::<_, String>((parts.status, reader))
        };
        let answered = timeout(ANSWER_WITHIN, answered).await;
        let answered = answered.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        let (status, reader) = answered.map_err(RenewalFault::Failed)?;
        let message = format!("the upstream answered {}", status.as_u16());
        match status {
            StatusCode::OK => Ok(reader.finish().usage),
            StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::UNPROCESSABLE_ENTITY => {
                Err(RenewalFault::Unsupported(message))
            }
            _ => Err(RenewalFault::Failed(message)),
        }
    }

    fn context(&self) -> RunContext {
        RunContext {
            client: self.client.clone(),
            billing: self.billing.clone(),
            metrics: Arc::clone(&self.metrics),
            endpoint: self.endpoint,
            upstream: self.outbound.upstream.name().to_owned(),
            model: self.model.clone(),
            payer: self.payer.clone(),
            is_of_operator: self.is_of_operator,
            hides_usage: false,
            form: AnswerForm::Whole,
            watched: None,
            guard: None,
            references: None,
            kept_for: None,
            numbered_calls: Vec::new(),
            keeps_refusals: false,
            idle_timeout: self.idle_timeout,
            span: UpstreamSpan::none(),
        }
    }
}

impl Renew for Renewal {
    fn send(&self) -> BoxFuture<'_, Result<Option<Usage>, RenewalFault>> {
        Box::pin(self.send_once())
    }

    fn upstream(&self) -> &str {
        self.outbound.upstream.name()
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn bytes(&self) -> usize {
        self.outbound.body().len()
    }

    fn settings(&self) -> u64 {
        self.settings
    }
}
