//! HTTP client for LlamaCloud.

use std::time::Duration;

use reqwest::multipart::{Form, Part};
use reqwest::{Method, RequestBuilder, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::wire::{AgentJob, ExtractionResult, IdResponse, Job, SchemaJob};
use crate::actions::arguments::{CheckedArguments, excerpt};
use crate::actions::http_response::HttpRequest;
use crate::{Arguments, Failure, Runtime};

/// The timeout of one request; the whole extraction has its own time limit.
const REQUEST: Duration = Duration::from_secs(60);

/// The timeout of an upload.
const UPLOAD: Duration = Duration::from_secs(600);

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
        let path = ["extraction", "extraction-agents", "by-name", name];
        let agent: IdResponse = self.get(&path).await?;
        Ok(agent.id)
    }

    /// Uploads a document and returns its id.
    pub(super) async fn upload(&self, name: String, document: Vec<u8>) -> Result<String, Failure> {
        let form = Form::new().part("upload_file", Part::bytes(document).file_name(name));
        let with_form = |request: RequestBuilder| request.multipart(form);
        let file: IdResponse = self
            .send(Method::POST, &["files"], UPLOAD, with_form)
            .await?;
        Ok(file.id)
    }

    /// Starts an extraction: by an agent (with `schema` in place of its own, if given), or by a schema
    /// alone in the given mode.
    pub(super) async fn start(
        &self,
        agent: Option<&str>,
        schema: Option<&Arguments>,
        mode: Option<&str>,
        file: &str,
    ) -> Result<Job, Failure> {
        match agent {
            Some(agent) => {
                let job = AgentJob {
                    extraction_agent_id: agent,
                    file_id: file,
                    data_schema_override: schema,
                };
                self.post(&["extraction", "jobs"], &job).await
            }
            None => {
                let nothing = Arguments::new();
                let job = SchemaJob {
                    data_schema: schema.unwrap_or(&nothing),
                    config: mode
                        .map_or_else(|| json!({}), |mode| json!({ "extraction_mode": mode })),
                    file_id: file,
                };
                self.post(&["extraction", "run"], &job).await
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
            match self.get(&["extraction", "jobs", &job.id]).await {
                Ok(polled) => job = polled,
                Err(failure) if failure.retryable => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(job)
    }

    /// Returns the result of a successful job.
    pub(super) async fn result(&self, job: &str) -> Result<ExtractionResult, Failure> {
        self.get(&["extraction", "jobs", job, "result"]).await
    }

    /// Redacts and shortens a text of the service, for messages.
    pub(super) fn redacted(&self, text: &str) -> String {
        excerpt(&self.runtime.masked(text))
    }

    fn url(&self, path: &[&str]) -> Result<Url, Failure> {
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            // Each segment is percent-encoded, so a name cannot add path segments.
            Ok(mut segments) => segments.pop_if_empty().extend(["api", "v1"]).extend(path),
            Err(()) => {
                let what = "the base URL of LlamaCloud cannot have a path";
                return Err(self.given.failure("configuration_error", what));
            }
        };
        Ok(url)
    }

    async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, Failure> {
        self.send(Method::GET, path, REQUEST, |request| request)
            .await
    }

    async fn post(&self, path: &[&str], body: &impl Serialize) -> Result<Job, Failure> {
        let with_body = |request: RequestBuilder| request.json(body);
        self.send(Method::POST, path, REQUEST, with_body).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        timeout: Duration,
        complete: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<T, Failure> {
        let url = self.url(path)?;
        let http = self.runtime.storage.http().clone();
        let mut request = HttpRequest::new(self.given, self.runtime, http, method, &url)?;
        request.builder = complete(request.builder.bearer_auth(self.key));
        let response = request.fetch(timeout, "auth_error").await?;
        response.decode("LlamaCloud", "http_error")
    }
}
