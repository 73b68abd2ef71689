//! The part of LlamaCloud's API that is used here, as it goes over the wire.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `POST /api/v1/files`, `GET /api/v1/extraction/extraction-agents/by-name/{name}`: something with an id.
#[derive(Deserialize)]
pub(super) struct Identified {
    pub(super) id: String,
}

/// `POST /api/v1/extraction/jobs`: a job of an agent.
#[derive(Serialize)]
pub(super) struct AgentJob<'a> {
    pub(super) extraction_agent_id: &'a str,
    pub(super) file_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data_schema_override: Option<&'a Value>,
}

/// `POST /api/v1/extraction/run`: a job of no agent.
#[derive(Serialize)]
pub(super) struct SchemaJob<'a> {
    pub(super) data_schema: &'a Value,
    pub(super) config: Value,
    pub(super) file_id: &'a str,
}

/// What starting a job and `GET /api/v1/extraction/jobs/{id}` answer.
#[derive(Deserialize)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) status: Status,
    #[serde(default)]
    pub(super) error: Option<String>,
}

/// How a job stands.
#[derive(Deserialize, PartialEq, Eq, Debug)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum Status {
    Pending,
    Success,
    PartialSuccess,
    Error,
    #[serde(alias = "CANCELED")]
    Cancelled,
    /// One that this version does not know: not an end.
    #[serde(other)]
    Other,
}

impl Status {
    pub(super) fn is_end(&self) -> bool {
        !matches!(self, Self::Pending | Self::Other)
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Success => "SUCCESS",
            Self::PartialSuccess => "PARTIAL_SUCCESS",
            Self::Error => "ERROR",
            Self::Cancelled => "CANCELLED",
            Self::Other => "UNKNOWN",
        }
    }
}

/// `GET /api/v1/extraction/jobs/{id}/result`.
#[derive(Deserialize)]
pub(super) struct Extracted {
    pub(super) data: Value,
    #[serde(default)]
    pub(super) extraction_metadata: Value,
}
