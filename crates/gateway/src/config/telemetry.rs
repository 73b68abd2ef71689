//! `telemetry` of a configuration file.

use cachalot_core::config::{Located, Settings, Values};
use cachalot_core::{Problem, Secret};
use http::{HeaderValue, Uri};

use super::CredentialSource;
use crate::api::Api;
use crate::collector::Collector;
use crate::upstream::Upstream;

/// The export of traces for OpenTelemetry.
#[derive(Debug, Clone, Settings)]
#[settings(name = "`telemetry`", check = check)]
pub(crate) struct TelemetryConfig {
    /// The base URL of a collector that accepts OTLP over HTTP in JSON, such as `http://127.0.0.1:4318`. Spans are sent
    /// to its path `/v1/traces`.
    otlp: Located<String>,
    /// The credential of the gateway at the collector, which is sent as `Authorization: Bearer`.
    pub(crate) credential: Option<CredentialSource>,
    /// The name of the service in traces.
    #[setting(default = "cachalot-gateway")]
    service_name: String,
}

/// Path of the endpoint for traces.
const TRACES: &str = "/v1/traces";

fn check(telemetry: &TelemetryConfig, _: Values<'_>, problems: &mut Vec<Problem>) {
    problems.extend(telemetry.traces().err().map(|problem| *problem));
}

impl TelemetryConfig {
    /// Returns the URL of the endpoint for traces.
    fn traces(&self) -> Result<Uri, Box<Problem>> {
        // Some programs are configured with the whole URL.
        let base = self.otlp.value.trim_end_matches('/');
        let base = base.strip_suffix(TRACES).unwrap_or(base);
        let problem =
            |message: String| Box::new(Problem::new("bad-value", message).at(&self.otlp.place));
        let server = Upstream::new("otlp", base).map_err(|error| problem(error.to_string()))?;
        // Clients of a collector add the version to the base URL, as those of this API do.
        let traces = server.uri(Api::Anthropic, TRACES, None);
        traces.map_err(|error| problem(error.to_string()))
    }

    /// Returns the collector.
    ///
    /// # Errors
    /// The credential is no header value, or the URL is not one of a server.
    pub(crate) fn collector(
        &self,
        credential: Option<&Secret<String>>,
    ) -> Result<Collector, Box<Problem>> {
        let authorization = credential.map(|credential| {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", credential.expose()))?;
            value.set_sensitive(true);
            Ok(value)
        });
        let authorization = authorization.transpose();
        let authorization = authorization.map_err(|_: http::header::InvalidHeaderValue| {
            let message = "the credential of `telemetry` is no header value: expected ASCII";
            let problem = Problem::new("missing-credential", message);
            Box::new(match &self.credential {
                Some(source) => problem.at(&source.place),
                None => problem,
            })
        })?;
        Ok(Collector {
            traces: self.traces()?,
            authorization,
            service_name: self.service_name.clone(),
        })
    }
}
