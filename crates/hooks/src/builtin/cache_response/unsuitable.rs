//! The reason why an answer is not stored, or not replayed.

use cachalot_cache::Failure;
use cachalot_core::text::head;
use jsonschema::ValidationError;

/// Maximum characters of a stop hook's message that a reason repeats.
const SHOWN_CHARS: usize = 200;

/// The reason why an answer is not stored, or not replayed. The message contains nothing of the answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsuitable {
    #[error("a hook answered")]
    Synthetic,
    #[error("another model answered in place of the agent's own")]
    ByFallback,
    #[error("another agent answered: `{0}`")]
    ByAgent(String),
    #[error("no model answered")]
    NoModel,
    #[error("a stop hook did not accept the answer: {}", first_line(.0))]
    Rejected(String),
    #[error("the turn went on because a hook wanted it to")]
    Continued,
    #[error("the user sent another message during the turn")]
    ExtraMessage,
    #[error("the session was continued elsewhere, or summarized, during the turn")]
    PrefixChanged,
    #[error(
        "tools were called earlier in the session, and their results may be outdated; set `ttl` to store the answer"
    )]
    OutdatedResults,
    #[error("`{0}` added to the message what may change; it would be kept with a `ttl`")]
    AddedContext(String),
    #[error("the turn ended in the middle of calls of tools")]
    EndedInCalls,
    #[error("the answer was cut off: it reached its limit")]
    CutOff,
    #[error("the model refused")]
    Refused,
    #[error("the answer is not known to be whole ({0})")]
    UnknownFinish(String),
    #[error("`{0}` may have changed something")]
    ToolWrites(String),
    #[error("`{0}` failed or was refused")]
    ToolFailed(String),
    #[error("what `{0}` found has expired meanwhile")]
    ResultExpired(String),
    #[error("what `{0}` found lasts for a time only, and a flat file cannot hold that")]
    ResultExpires(String),
    #[error("the answer was built from what `{0}` read, and a flat file cannot hold that")]
    ResultHasWitnesses(String),
    #[error("`{tool}` leaves no witness ({why}); the answer would be kept with a `ttl`")]
    NoWitness { tool: String, why: String },
    #[error("the answer is empty")]
    Empty,
    #[error("the answer is the raw text of a call of a tool")]
    RawCall,
    #[error("the answer cannot be checked: its schema is none: {0}")]
    Schema(Box<ValidationError<'static>>),
    #[error("the answer should be JSON, and is not")]
    NotJson,
    #[error("the answer has not the form that it should have: {place}: {problem}")]
    OtherForm { place: String, problem: String },
    #[error("the question holds a secret, and a flat file would keep it as it is")]
    SecretInQuestion,
    #[error("{}", cachalot_cache::Reason::HoldsSecret)]
    SecretInAnswer,
    #[error(transparent)]
    Encode(#[from] serde_json::Error),
    #[error(transparent)]
    Entry(#[from] Failure),
}

fn first_line(text: &str) -> &str {
    head(text.lines().next().unwrap_or_default(), SHOWN_CHARS)
}
