//! The view that scripts have of a request: the current turn and its progress. The same for all formats.

use serde_json::Value;

/// The state of a conversation in a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dialogue {
    pub(crate) model: String,
    /// Text blocks of the last user message that is not a response to tool calls.
    pub(crate) user: Vec<String>,
    /// Number of answers of the model since that message.
    pub(crate) step: usize,
    /// Tool calls of the model since that message, in order.
    pub(crate) calls: Vec<ToolCall>,
    /// Results of these calls, in order.
    pub(crate) results: Vec<ToolResult>,
    pub(crate) tools: Vec<OfferedTool>,
    pub(crate) choice: Choice,
    /// JSON schema that the answer has to follow.
    pub(crate) schema: Option<Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolResult {
    pub(crate) call_id: String,
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OfferedTool {
    pub(crate) name: String,
    pub(crate) schema: Value,
}

/// The tool choice of the request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Choice {
    #[default]
    Auto,
    None,
    Any,
    Named(String),
}

/// One message or item of a request.
#[derive(Debug, Clone)]
pub(crate) enum DialogueItem {
    User(Vec<String>),
    Model(Vec<ToolCall>),
    Results(Vec<ToolResult>),
}

impl Dialogue {
    pub(crate) fn new(
        model: &str,
        tools: Vec<OfferedTool>,
        choice: Choice,
        schema: Option<Value>,
        items: impl IntoIterator<Item = DialogueItem>,
    ) -> Self {
        let mut dialogue = Self {
            model: model.to_owned(),
            tools,
            choice,
            schema,
            ..Self::default()
        };
        dialogue.push_items(items);
        dialogue
    }

    /// Processes messages in order.
    pub(crate) fn push_items(&mut self, dialogue_item: impl IntoIterator<Item = DialogueItem>) {
        let mut last_was_user = false;
        let mut last_was_model = false;
        for dialogue_item in dialogue_item {
            match dialogue_item {
                DialogueItem::User(texts) => {
                    if !last_was_user {
                        self.user.clear();
                    }
                    self.user.extend(texts);
                    self.step = 0;
                    self.calls.clear();
                    self.results.clear();
                    (last_was_user, last_was_model) = (true, false);
                }
                DialogueItem::Model(calls) => {
                    self.step += usize::from(!last_was_model);
                    self.calls.extend(calls);
                    (last_was_user, last_was_model) = (false, true);
                }
                DialogueItem::Results(results) => {
                    self.results.extend(results);
                    (last_was_user, last_was_model) = (false, false);
                }
            }
        }
        // A message of the model at the end is the beginning of the answer to be continued.
        self.step -= usize::from(last_was_model);
    }

    /// Returns the whole text of the user.
    pub(crate) fn user_text(&self) -> String {
        self.user.join("\n")
    }

    pub(crate) fn has_tool(&self, tool: &str) -> bool {
        self.tools.iter().any(|offered| offered.name == tool)
    }

    /// Returns the result of a call.
    pub(crate) fn result_of(&self, call: &ToolCall) -> Option<&ToolResult> {
        self.results.iter().find(|result| result.call_id == call.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall {
            id: id.to_owned(),
            name: "look".to_owned(),
            arguments: Value::Null,
        }
    }

    fn result(id: &str) -> DialogueItem {
        DialogueItem::Results(vec![ToolResult {
            call_id: id.to_owned(),
            text: format!("of {id}"),
            is_error: false,
        }])
    }

    #[test]
    fn step_counts_from_the_last_user_message() {
        let user = |text: &str| DialogueItem::User(vec![text.to_owned()]);
        let mut dialogue = Dialogue::default();
        dialogue.push_items([
            user("first"),
            DialogueItem::Model(vec![call("a")]),
            result("a"),
            DialogueItem::Model(vec![]),
            user("second"),
            user("with context"),
            DialogueItem::Model(vec![]),
            DialogueItem::Model(vec![call("b"), call("c")]),
            result("b"),
            result("c"),
        ]);
        assert_eq!(dialogue.user, ["second", "with context"]);
        assert_eq!(dialogue.step, 1);
        assert_eq!(dialogue.calls, [call("b"), call("c")]);
        assert_eq!(
            dialogue
                .result_of(&call("c"))
                .map(|found| found.text.as_str()),
            Some("of c")
        );
        assert_eq!(dialogue.result_of(&call("a")), None);
    }

    #[test]
    fn prefilled_answer_is_not_a_step() {
        let mut dialogue = Dialogue::default();
        dialogue.push_items([
            DialogueItem::User(vec!["question".to_owned()]),
            DialogueItem::Model(vec![]),
        ]);
        assert_eq!(dialogue.step, 0);
    }
}
