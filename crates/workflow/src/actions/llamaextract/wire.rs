//! Wire format of the part of LlamaCloud's API that is used here.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Arguments;

/// Response with an id: `POST /api/v1/files`, `GET /api/v1/extraction/extraction-agents/by-name/{name}`.
#[derive(Deserialize)]
pub(super) struct IdResponse {
    pub(super) id: String,
}

/// Body of `POST /api/v1/extraction/jobs`: a job of an agent.
#[derive(Serialize)]
pub(super) struct AgentJob<'a> {
    pub(super) extraction_agent_id: &'a str,
    pub(super) file_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data_schema_override: Option<&'a Arguments>,
}

/// Body of `POST /api/v1/extraction/run`: a job without an agent.
#[derive(Serialize)]
pub(super) struct SchemaJob<'a> {
    pub(super) data_schema: &'a Arguments,
    pub(super) config: Value,
    pub(super) file_id: &'a str,
}

/// Response to starting a job and to `GET /api/v1/extraction/jobs/{id}`.
#[derive(Deserialize)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) status: Status,
    #[serde(default)]
    pub(super) error: Option<String>,
}

/// The status of a job.
#[derive(Serialize, Deserialize, PartialEq, Eq, Debug)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum Status {
    Pending,
    Success,
    PartialSuccess,
    Error,
    #[serde(alias = "CANCELED")]
    Cancelled,
    /// A status that this version does not know; the job counts as running.
    #[serde(other)]
    Other,
}

impl Status {
    pub(super) fn is_final(&self) -> bool {
        !matches!(self, Self::Pending | Self::Other)
    }
}

/// Response of `GET /api/v1/extraction/jobs/{id}/result`.
#[derive(Deserialize)]
pub(super) struct ExtractionResult {
    pub(super) data: Value,
    #[serde(default)]
    pub(super) extraction_metadata: Value,
}
