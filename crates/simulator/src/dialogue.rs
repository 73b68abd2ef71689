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
    pub(crate) calls: Vec<Call>,
    /// Results of these calls, in order.
    pub(crate) results: Vec<CallResult>,
    pub(crate) tools: Vec<OfferedTool>,
    pub(crate) choice: Choice,
    /// JSON schema that the answer has to follow.
    pub(crate) schema: Option<Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallResult {
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
pub(crate) enum Spoken {
    User(Vec<String>),
    Model(Vec<Call>),
    Results(Vec<CallResult>),
}

impl Dialogue {
    /// Processes messages in order.
    pub(crate) fn hear(&mut self, spoken: impl IntoIterator<Item = Spoken>) {
        let mut last_was_user = false;
        let mut last_was_model = false;
        for spoken in spoken {
            match spoken {
                Spoken::User(texts) => {
                    if !last_was_user {
                        self.user.clear();
                    }
                    self.user.extend(texts);
                    self.step = 0;
                    self.calls.clear();
                    self.results.clear();
                    (last_was_user, last_was_model) = (true, false);
                }
                Spoken::Model(calls) => {
                    self.step += usize::from(!last_was_model);
                    self.calls.extend(calls);
                    (last_was_user, last_was_model) = (false, true);
                }
                Spoken::Results(results) => {
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

    pub(crate) fn offers(&self, tool: &str) -> bool {
        self.tools.iter().any(|offered| offered.name == tool)
    }

    /// Returns the result of a call.
    pub(crate) fn result_of(&self, call: &Call) -> Option<&CallResult> {
        self.results.iter().find(|result| result.call_id == call.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> Call {
        Call {
            id: id.to_owned(),
            name: "look".to_owned(),
            arguments: Value::Null,
        }
    }

    fn result(id: &str) -> Spoken {
        Spoken::Results(vec![CallResult {
            call_id: id.to_owned(),
            text: format!("of {id}"),
            is_error: false,
        }])
    }

    #[test]
    fn the_step_is_counted_from_the_last_message_of_the_user() {
        let user = |text: &str| Spoken::User(vec![text.to_owned()]);
        let mut dialogue = Dialogue::default();
        dialogue.hear([
            user("first"),
            Spoken::Model(vec![call("a")]),
            result("a"),
            Spoken::Model(vec![]),
            user("second"),
            user("with context"),
            Spoken::Model(vec![]),
            Spoken::Model(vec![call("b"), call("c")]),
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
    fn a_beginning_of_the_answer_is_no_step() {
        let mut dialogue = Dialogue::default();
        dialogue.hear([
            Spoken::User(vec!["question".to_owned()]),
            Spoken::Model(vec![]),
        ]);
        assert_eq!(dialogue.step, 0);
    }
}
