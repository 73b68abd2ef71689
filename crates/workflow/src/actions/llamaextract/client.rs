//! HTTP client for LlamaCloud.

use std::time::Duration;

use cachalot_core::secret::mask_credentials;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, RequestBuilder, Url};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::wire::{AgentJob, ExtractionResult, IdResponse, Job, SchemaJob};
use crate::actions::arguments::{CheckedArguments, excerpt};
use crate::actions::http_response::{self, HttpResponse, RequestLimits};
use crate::{Failure, Runtime};

/// Limits of one request; the whole extraction has its own time limit.
const REQUEST: RequestLimits = RequestLimits {
    timeout: Duration::from_secs(60),
    unauthorized: "auth_error",
};

/// Limits of an upload.
const UPLOAD: RequestLimits = RequestLimits {
    timeout: Duration::from_secs(600),
    unauthorized: "auth_error",
};

/// A client for one account at one base URL.
pub(super) struct Client<'a> {
    given: &'a CheckedArguments<'a>,
    runtime: &'a Runtime,
    base: Url,
    key: &'a str,
}

impl<'a> Client<'a> {
    pub(super) fn new(
        given: &'a CheckedArguments<'a>,
        runtime: &'a Runtime,
        base: &str,
        key: &'a str,
    ) -> Result<Self, Failure> {
        let base = Url::parse(base).ok().filter(|url| matches!(url.scheme(), "http" | "https")).ok_or_else(|| {
            given.failure("configuration_error", "the base URL of LlamaCloud (`settings.llamaextract.base_url` or LLAMA_CLOUD_BASE_URL) is no http or https URL")
        })?;
        Ok(Self {
            given,
            runtime,
            base,
            key,
        })
    }

    /// Returns the id of the extraction agent of this name.
    pub(super) async fn find_agent(&self, name: &str) -> Result<String, Failure> {
        let url = self.url(&["extraction", "extraction-agents", "by-name", name])?;
        let agent: IdResponse = self
            .send(self.request(Method::GET, &url)?, &url, REQUEST)
            .await?;
        Ok(agent.id)
    }

    /// Uploads a document and returns its id.
    pub(super) async fn upload(&self, name: String, document: Vec<u8>) -> Result<String, Failure> {
        let url = self.url(&["files"])?;
        let form = Form::new().part("upload_file", Part::bytes(document).file_name(name));
        let file: IdResponse = self
            .send(
                self.request(Method::POST, &url)?.multipart(form),
                &url,
                UPLOAD,
            )
            .await?;
        Ok(file.id)
    }

    /// Starts an extraction: by an agent (with `schema` in place of its own, if given), or by a schema
    /// alone in the given mode.
    pub(super) async fn start(
        &self,
        agent: Option<&str>,
        schema: Option<&serde_json::Value>,
        mode: Option<&str>,
        file: &str,
    ) -> Result<Job, Failure> {
        match agent {
            Some(agent) => {
                let url = self.url(&["extraction", "jobs"])?;
                let job = AgentJob {
                    extraction_agent_id: agent,
                    file_id: file,
                    data_schema_override: schema,
                };
                self.send(self.request(Method::POST, &url)?.json(&job), &url, REQUEST)
                    .await
            }
            None => {
                let url = self.url(&["extraction", "run"])?;
                let nothing = json!({});
                let job = SchemaJob {
                    data_schema: schema.unwrap_or(&nothing),
                    config: mode
                        .map_or_else(|| json!({}), |mode| json!({ "extraction_mode": mode })),
                    file_id: file,
                };
                self.send(self.request(Method::POST, &url)?.json(&job), &url, REQUEST)
                    .await
            }
        }
    }

    /// Polls a job until it ends. A poll that fails with a retryable error is repeated, because the job
    /// is already paid for.
    pub(super) async fn wait_for_end(
        &self,
        mut job: Job,
        interval: Duration,
    ) -> Result<Job, Failure> {
        while !job.status.is_final() {
            tokio::time::sleep(interval).await;
            let url = self.url(&["extraction", "jobs", &job.id])?;
            match self
                .send::<Job>(self.request(Method::GET, &url)?, &url, REQUEST)
                .await
            {
                Ok(polled) => job = polled,
                Err(failure) if failure.retryable => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(job)
    }

    /// Returns the result of a successful job.
    pub(super) async fn result(&self, job: &str) -> Result<ExtractionResult, Failure> {
        let url = self.url(&["extraction", "jobs", job, "result"])?;
        self.send(self.request(Method::GET, &url)?, &url, REQUEST)
            .await
    }

    /// Redacts and shortens a text of the service, for messages.
    pub(super) fn redacted(&self, text: &str) -> String {
        excerpt(&mask_credentials(&self.runtime.secret_set.redact(text)))
    }

    fn url(&self, path: &[&str]) -> Result<Url, Failure> {
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            // Each segment is percent-encoded, so a name cannot add path segments.
            Ok(mut segments) => segments.pop_if_empty().extend(["api", "v1"]).extend(path),
            Err(()) => {
                return Err(self.given.failure(
                    "configuration_error",
                    "the base URL of LlamaCloud cannot have a path",
                ));
            }
        };
        Ok(url)
    }

    fn request(&self, method: Method, url: &Url) -> Result<RequestBuilder, Failure> {
        Ok(
            http_response::configured_request(self.given, self.runtime, method, url)?
                .bearer_auth(self.key),
        )
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        url: &Url,
        limits: RequestLimits,
    ) -> Result<T, Failure> {
        let sent = (self.runtime.storage.http(), request);
        let response: HttpResponse =
            http_response::fetch(self.given, self.runtime, sent, url, limits).await?;
        serde_json::from_value(response.json(self.given)?).map_err(|error| {
            self.given.failure(
                "http_error",
                format_args!(
                    "{} did not answer as LlamaCloud does: {error}",
                    response.from
                ),
            )
        })
    }
}
