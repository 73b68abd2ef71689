//! `telemetry` of a configuration file.

use cachalot_core::spec::{Literal, ParameterKind as Kind, Table, Values, key, required};
use cachalot_core::{Problem, Secret};
use http::{HeaderValue, Uri};

use super::{CREDENTIAL, CredentialSource};
use crate::api::Api;
use crate::collector::Collector;
use crate::upstream::Upstream;

/// The collector of the gateway's spans.
#[derive(Debug, Clone)]
pub(crate) struct TelemetryConfig {
    /// URL of the endpoint for traces.
    traces: Uri,
    pub(crate) credential: Option<CredentialSource>,
    service_name: String,
}

/// Default of `service_name`.
const SERVICE: &str = "cachalot-gateway";

/// Path of the endpoint for traces.
const TRACES: &str = "/v1/traces";

#[rustfmt::skip]
pub(super) static TELEMETRY: Table = Table::new(
    "`telemetry`",
    "The export of traces for OpenTelemetry.",
    &[&[
        required("otlp", Kind::Text, "The base URL of a collector that accepts OTLP over HTTP in JSON, such as `http://127.0.0.1:4318`. Spans are sent to its path `/v1/traces`."),
        key("credential", Kind::Table(&CREDENTIAL), "The credential of the gateway at the collector, which is sent as `Authorization: Bearer`."),
        key("service_name", Kind::Text, "The name of the service in traces.").default(Literal::Text(SERVICE)),
    ]],
);

impl TelemetryConfig {
    pub(super) fn read(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        let credential = match values.table("credential") {
            Some(credential) => Some(CredentialSource::from_values(credential, problems)?),
            None => None,
        };
        let url = values.text("otlp")?;
        // Some programs are configured with the whole URL.
        let base = url.trim_end_matches('/');
        let base = base.strip_suffix(TRACES).unwrap_or(base);
        let server = Upstream::new("otlp", base).map_err(|error| error.to_string());
        // Clients of a collector add the version to the base URL, as those of this API do.
        let traces = server.and_then(|it| {
            let traces = it.uri(Api::Anthropic, TRACES, None);
            traces.map_err(|error| error.to_string())
        });
        match traces {
            Ok(traces) => Some(Self {
                traces,
                credential,
                service_name: values.text("service_name").unwrap_or(SERVICE).to_owned(),
            }),
            Err(error) => {
                problems.push(Problem::new("bad-value", error).at(&values.place("otlp")));
                None
            }
        }
    }

    /// Returns the collector.
    ///
    /// # Errors
    /// The credential is no header value.
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
            traces: self.traces.clone(),
            authorization,
            service_name: self.service_name.clone(),
        })
    }
}
