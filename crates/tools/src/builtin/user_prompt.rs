//! The tool `user_prompt`, which asks the user a question.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::config::{CallArguments, tool_schema};
use cachalot_operation::{AnswerField, Tool, ToolContext, ToolOutput, UserAnswer, UserQuestion};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::internal_tool::{InternalCall, internal_tool};

/// The reason of an answer if no user can be asked.
const NO_USER: &str =
    "no user can be asked here: decide yourself, or end with the question as your answer";

/// Creates the tool `user_prompt`. It asks through [`ToolContext::user`]; without one the answer is `cancel`.
#[must_use]
pub fn user_prompt() -> Arc<dyn Tool> {
    let metadata = super::harmless_metadata(
        "user_prompt",
        "Asks the user a question and waits for the answer. Use it if you need information, a decision or a confirmation to continue. The result has `action` (accept, decline or cancel) and, if accepted, `content` with the values by name (`response` for text without a schema, `value` for the schema of a single value).",
        tool_schema(UserPrompt::PARAMETERS),
    );
    internal_tool::<UserPrompt>(metadata, ())
}

#[derive(CallArguments, Deserialize)]
struct UserPrompt {
    /// The question.
    message: String,
    /// A heading.
    title: Option<String>,
    /// A JSON Schema of the answer: of an object with properties (text, numbers, booleans, enum), each of which is
    /// asked for, or of a single value. Without it the answer is text.
    schema: Option<Map<String, Value>>,
}

#[async_trait]
impl InternalCall for UserPrompt {
    type State = ();

    async fn run(self, (): &(), context: &ToolContext) -> ToolOutput {
        let schema = self.schema.map(Value::Object);
        let fields = match AnswerField::from_schema(schema.as_ref()) {
            Ok(fields) => fields,
            Err(error) => return ToolOutput::error(error.to_string()),
        };
        let question = UserQuestion {
            title: self.title.as_deref(),
            message: &self.message,
            fields: &fields,
        };
        let answer = match &context.user {
            Some(user) => user.ask(&question).await,
            None => UserAnswer::Cancel(Some(NO_USER.to_owned())),
        };
        let mut is_error = true;
        let answer = match answer {
            UserAnswer::Accept(content) => {
                is_error = false;
                json!({ "action": "accept", "content": content })
            }
            UserAnswer::Decline => json!({ "action": "decline" }),
            UserAnswer::Cancel(None) => json!({ "action": "cancel" }),
            UserAnswer::Cancel(Some(reason)) => json!({ "action": "cancel", "reason": reason }),
        };
        let text = context.secret_set.redact(&answer.to_string()).into_owned();
        super::passing_result(ToolOutput {
            is_error,
            ..ToolOutput::text(text)
        })
    }
}
