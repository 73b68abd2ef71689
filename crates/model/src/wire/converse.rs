//! Amazon Bedrock's Converse:
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html>.
//!
//! The path contains the model and the choice between stream and whole answer. A cache point is a separate
//! block after the content that it marks. User and model must alternate: [`crate::prepare`] marks
//! consecutive messages of one role, and a short message of the other role is inserted between them.

mod answer;
mod request;
mod stream;
mod tail;

pub(super) use answer::{reply, usage};
pub(crate) use request::is_sent;
pub(super) use request::{message, system, tool};
pub(super) use stream::ConverseStreamReader;
pub(super) use tail::{tail, tool_choice};
