//! Answers of an agent's model to others: a server may ask for one during a call (`sampling/createMessage` of MCP).

use async_trait::async_trait;
use cachalot_model::{Message, StopReason};

/// A request for an answer of the agent's model.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingRequest {
    /// The requester, for the user, such as ``the MCP server `files` ``.
    pub requester: String,
    /// System text.
    pub system: Option<String>,
    /// Messages.
    pub messages: Vec<Message>,
    /// Maximum number of output tokens, without reasoning.
    pub max_output_tokens: u64,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Stop sequences.
    pub stop: Vec<String>,
}

/// An answer of the agent's model.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingAnswer {
    /// The model, under the name of its provider.
    pub model: String,
    /// The text.
    pub text: String,
    /// The reason for the end.
    pub stop: StopReason,
}

/// The reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SamplingError {
    /// The user refused, or withdrew the question.
    #[error("the user declined it")]
    Declined,
    /// A budget is exhausted, or the model failed; with the reason.
    #[error("{0}")]
    Failed(String),
}

/// Asks the model of an agent on behalf of others.
#[async_trait]
pub trait Sampler: Send + Sync {
    /// Asks the user for approval, and then the model. The answer counts against the budgets of the agent. Dropping the
    /// future withdraws the question; a request that the model has got is paid for and counted all the same.
    ///
    /// # Errors
    /// There is no answer.
    async fn sample(&self, request: SamplingRequest) -> Result<SamplingAnswer, SamplingError>;
}
