//! Tools and effort that change within a conversation, from a message of the user on, so that everything that was sent
//! before keeps its bytes.
//!
//! The changes are a note of the message. [`crate::Wire::message`] renders them as the last pieces of that message:
//!
//! | format | pieces | limits |
//! |---|---|---|
//! | Anthropic Messages | a `system` message with `output_config`, `tool_removal` and `tool_addition` | some models, at Anthropic's own API |
//! | OpenAI Responses | items `configuration_update` and `additional_tools` | some models, at OpenAI; tools can only be added |
//!
//! Other formats have no such piece. Converse has blocks with these names, which no model accepts (2026-09-10,
//! <https://github.com/stdapi-ai/stdapi.ai/issues/104>).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind};
use crate::{Message, Role, ToolDefinition};

/// Note of a [`Message`] with what changes after it.
const NOTE: &str = "@changes";

/// Parts of the messages by which providers refuse changes: the names of their blocks, items and members, and
/// Anthropic's message for models without `system` messages.
const REFUSED: [&str; 7] = [
    "tool_addition",
    "tool_removal",
    "output_config",
    "effort",
    "role 'system'",
    "additional_tools",
    "configuration_update",
];

/// Tools and effort that change at one place of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SettingChanges {
    /// Tools that are offered from there on. A tool with the name of an earlier one replaces it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<ToolDefinition>,
    /// Names of tools that are no longer offered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// The effort of the answers from there on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
}

impl SettingChanges {
    /// True if nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.effort.is_none()
    }

    /// Returns the changes after a message; `None` if there are none.
    #[must_use]
    pub fn noted(message: &Message) -> Option<Self> {
        // Only messages of the user have such notes: fields of an answer are the provider's.
        let note = message.extra.get(NOTE)?;
        let changes = Self::deserialize(note).ok()?;
        (message.role == Role::User && !changes.is_empty()).then_some(changes)
    }

    /// Sets the changes after a message; no changes remove those that it has.
    pub fn note(&self, message: &mut Message) {
        match serde_json::to_value(self) {
            Ok(note) if !self.is_empty() => {
                message.extra.insert(NOTE.to_owned(), note);
            }
            _ => {
                message.extra.shift_remove(NOTE);
            }
        }
    }

    /// Returns true if an error refuses such changes themselves.
    #[must_use]
    pub fn are_refused_by(error: &Error) -> bool {
        error.kind == ErrorKind::Rejected && REFUSED.iter().any(|part| error.message.contains(part))
    }

    /// Returns a message without its changes, for a conversation that is rendered anew with the settings at its end.
    #[must_use]
    pub fn removed_from(mut message: Arc<Message>) -> Arc<Message> {
        if message.extra.contains_key(NOTE) {
            Arc::make_mut(&mut message).extra.shift_remove(NOTE);
        }
        message
    }
}

/// The changes of tools that a model accepts within a conversation whose first request has at least one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptedToolChanges {
    /// Tools can be added.
    Additions,
    /// Tools can be added, replaced and removed.
    All,
}

impl AcceptedToolChanges {
    /// Returns true if the model accepts these changes while it is offered the tools with the names `offered`.
    #[must_use]
    pub fn accepts(self, changes: &SettingChanges, offered: &[String]) -> bool {
        let is_replaced = |tool: &ToolDefinition| offered.contains(&tool.name);
        match self {
            Self::All => true,
            Self::Additions => changes.removed.is_empty() && !changes.added.iter().any(is_replaced),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{MESSAGES, RESPONSES, Wire};

    fn tool(name: &str) -> ToolDefinition {
        ToolDefinition {
            name: name.to_owned(),
            description: "Does.".to_owned(),
            parameters: json!({"type": "object"}),
        }
    }

    fn changes() -> SettingChanges {
        SettingChanges {
            added: vec![tool("late")],
            removed: vec!["early".to_owned()],
            effort: None,
        }
    }

    fn effort() -> SettingChanges {
        SettingChanges {
            effort: Some("low".to_owned()),
            ..SettingChanges::default()
        }
    }

    fn noted(changes: &SettingChanges) -> Message {
        let mut message = Message::user("Go on.");
        changes.note(&mut message);
        message
    }

    fn texts(wire: &dyn Wire, message: &Message) -> Vec<String> {
        let pieces = wire.message(message).unwrap().into_iter();
        pieces
            .map(|piece| String::from_utf8(piece.bytes.to_vec()).unwrap())
            .collect()
    }

    #[test]
    fn anthropic_gets_a_system_message_after_the_users() {
        let message = noted(&changes());
        let texts = texts(&*MESSAGES, &message);
        assert_eq!(
            texts,
            [
                r#"{"role":"user","content":[{"type":"text","text":"Go on."}]}"#,
                concat!(
                    r#"{"role":"system","content":["#,
                    r#"{"type":"tool_removal","tool":{"type":"tool_reference","name":"early"}},"#,
                    r#"{"type":"tool_addition","tool":{"type":"tool_definition","definition":"#,
                    r#"{"name":"late","description":"Does.","input_schema":{"type":"object"}}}}]}"#,
                ),
            ]
        );
        // A marker belongs to the last block.
        let piece = MESSAGES.message(&message).unwrap().pop().unwrap();
        let at = usize::try_from(piece.mark_at.unwrap()).unwrap();
        assert_eq!(&texts[1][at..], "}]}");
        assert_eq!(
            MESSAGES.betas(texts[1].as_bytes()),
            ["inline-tools-2026-09-15"]
        );
        assert_eq!(MESSAGES.betas(texts[0].as_bytes()), [] as [&str; 0]);
    }

    #[test]
    fn effort_is_set_by_the_same_message() {
        let texts_of = |changes: &SettingChanges| texts(&*MESSAGES, &noted(changes)).pop().unwrap();
        let alone = texts_of(&effort());
        assert_eq!(
            alone,
            r#"{"role":"system","output_config":{"effort":"low"},"content":[]}"#
        );
        let beta = "mid-conversation-output-config-2026-07-01";
        assert_eq!(MESSAGES.betas(alone.as_bytes()), [beta]);
        let both = texts_of(&SettingChanges {
            effort: effort().effort,
            ..changes()
        });
        let open = r#"{"role":"system","output_config":{"effort":"low"},"content":[{"type":"tool_removal","#;
        assert!(both.starts_with(open), "{both}");
        assert_eq!(
            MESSAGES.betas(both.as_bytes()),
            ["inline-tools-2026-09-15", beta]
        );
        let item = texts(&*RESPONSES, &noted(&effort())).pop().unwrap();
        assert_eq!(
            item,
            r#"{"type":"configuration_update","reasoning":{"effort":"low"}}"#
        );
    }

    #[test]
    fn text_that_looks_like_a_change_needs_no_header() {
        let text = r#"{"role":"system","output_config":{},"content":[{"type":"tool_addition"}]}"#;
        let texts = texts(&*MESSAGES, &Message::user(text));
        assert_eq!(MESSAGES.betas(texts[0].as_bytes()), [] as [&str; 0]);
    }

    #[test]
    fn openai_gets_an_item() {
        let added = SettingChanges {
            removed: Vec::new(),
            ..changes()
        };
        let texts = texts(&*RESPONSES, &noted(&added));
        assert_eq!(texts.len(), 2);
        assert_eq!(
            texts[1],
            concat!(
                r#"{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"late","#,
                r#""description":"Does.","parameters":{"type":"object"},"strict":false}]}"#,
            )
        );
        assert_eq!(RESPONSES.betas(texts[1].as_bytes()), [] as [&str; 0]);
    }

    #[test]
    fn message_without_content_changes_nothing() {
        let mut message = Message::new(Role::User, Vec::new());
        changes().note(&mut message);
        assert_eq!(texts(&*MESSAGES, &message), [] as [&str; 0]);
    }

    #[test]
    fn only_messages_of_the_user_have_changes() {
        let mut answer = Message::assistant("Yes.");
        changes().note(&mut answer);
        assert_eq!(SettingChanges::noted(&answer), None);
        assert_eq!(texts(&*MESSAGES, &answer).len(), 1);
    }

    #[test]
    fn note_is_removed() {
        let message = noted(&changes());
        assert_eq!(SettingChanges::noted(&message), Some(changes()));
        let plain = SettingChanges::removed_from(Arc::new(message.clone()));
        assert_eq!(*plain, Message::user("Go on."));
        let mut message = message;
        SettingChanges::default().note(&mut message);
        assert_eq!(message, Message::user("Go on."));
    }

    #[test]
    fn refusals_are_recognized() {
        let refused =
            |kind, message: &str| SettingChanges::are_refused_by(&Error::new(kind, message));
        for message in [
            "tool_addition/tool_removal is not supported on this model",
            "messages.1.output_config: Extra inputs are not permitted",
            "role 'system' is not supported on this model",
            "The 'configuration_update' item type is not supported with pro or tournament models.",
        ] {
            assert!(refused(ErrorKind::Rejected, message), "{message}");
            assert!(!refused(ErrorKind::Unavailable, message), "{message}");
        }
        assert!(!refused(ErrorKind::Rejected, "max_tokens: Field required"));
    }

    #[test]
    fn models_accept_what_is_documented() {
        let of = |wire: &dyn Wire, provider: &str, model: &str| wire.tool_changes(provider, model);
        let all = Some(AcceptedToolChanges::All);
        assert_eq!(of(&*MESSAGES, "anthropic", "claude-opus-5"), all);
        assert_eq!(of(&*MESSAGES, "anthropic", "claude-opus-4-8"), all);
        for model in [
            "claude-sonnet-5",
            "claude-opus-4-7",
            "claude-opus-5-9",
            "claude",
        ] {
            assert_eq!(of(&*MESSAGES, "anthropic", model), None, "{model}");
        }
        assert_eq!(of(&*MESSAGES, "vertex", "claude-opus-5"), None);
        let additions = Some(AcceptedToolChanges::Additions);
        assert_eq!(of(&*RESPONSES, "openai", "gpt-5.6-sol"), additions);
        assert_eq!(of(&*RESPONSES, "openai", "gpt-6.1-sol"), additions);
        for model in ["gpt-5-mini", "gpt-5.4-pro", "gpt-5.2-chat-latest", "gpt-7"] {
            assert_eq!(of(&*RESPONSES, "openai", model), None, "{model}");
        }
        assert_eq!(of(&*RESPONSES, "azure", "gpt-5.6-sol"), None);
        assert_eq!(of(&*crate::CHAT, "openai", "gpt-5.6-sol"), None);
    }

    #[test]
    fn models_accept_documented_changes_of_the_effort() {
        let of = |wire: &dyn Wire, provider: &str, model: &str| {
            wire.accepts_effort_changes(provider, model)
        };
        assert!(of(&*MESSAGES, "anthropic", "claude-opus-5"));
        assert!(of(&*MESSAGES, "anthropic", "claude-sonnet-5-5"));
        assert!(!of(&*MESSAGES, "anthropic", "claude-opus-4-8"));
        assert!(!of(&*MESSAGES, "bedrock", "claude-opus-5"));
        assert!(of(&*RESPONSES, "openai", "gpt-6-astra"));
        assert!(!of(&*RESPONSES, "openai", "gpt-6-astra-pro"));
        assert!(!of(&*RESPONSES, "openai", "gpt-5.6-sol"));
        assert!(!of(&*crate::CHAT, "openai", "gpt-6-astra"));
    }

    #[test]
    fn additions_replace_and_remove_nothing() {
        let accepts = |changes: &SettingChanges, offered: &[&str]| {
            let offered: Vec<String> = offered.iter().map(|name| (*name).to_owned()).collect();
            AcceptedToolChanges::Additions.accepts(changes, &offered)
        };
        let added = SettingChanges {
            removed: Vec::new(),
            ..changes()
        };
        assert!(accepts(&added, &["early"]));
        assert!(!accepts(&added, &["late"]));
        assert!(!accepts(&changes(), &["early"]));
        assert!(AcceptedToolChanges::All.accepts(&changes(), &["late".to_owned()]));
    }
}
