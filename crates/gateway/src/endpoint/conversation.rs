//! The beginning of a conversation, which all its requests have.

use cachalot_core::Digest;
use serde_json::Value;

use super::members::items_of;
use super::{Endpoint, MARKER_NAME};

impl Endpoint {
    /// Returns the digest of the texts in the first message of the user, without cache markers, which move from request
    /// to request; `None` for a request without one.
    pub(crate) fn beginning(self, body: &Value) -> Option<Digest> {
        let (members, body) = (self.members()?, body.as_object()?);
        // The first of the declared inputs has the messages.
        let messages = members.values(body, members.inputs.first()?).next()?;
        let is_of_user = |item: &&Value| {
            let role = item.get("role").and_then(Value::as_str);
            item.is_string() || role.is_none_or(|role| role == "user")
        };
        let mut texts = Vec::new();
        add_texts(items_of(messages).iter().find(is_of_user)?, &mut texts);
        Some(Digest::sha256_of_parts(&texts))
    }
}

fn add_texts<'a>(value: &'a Value, texts: &mut Vec<&'a [u8]>) {
    match value {
        Value::String(text) => texts.push(text.as_bytes()),
        Value::Array(items) => items.iter().for_each(|item| add_texts(item, texts)),
        Value::Object(members) => {
            let members = members.iter().filter(|(name, _)| *name != MARKER_NAME);
            members.for_each(|(_, member)| add_texts(member, texts));
        }
        _ => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_of_a_conversation_have_one_beginning() {
        let of = |body: Value| Endpoint::messages().beginning(&body).unwrap();
        let text =
            |marker: Value| json!({"type": "text", "text": "hello", "cache_control": marker});
        let first = of(
            json!({"messages": [{"role": "user", "content": [text(json!({"type": "ephemeral"}))]}]}),
        );
        let next = json!({"system": [{"type": "text", "text": "now 2"}], "messages": [
            {"role": "user", "content": [text(Value::Null)]}, {"role": "assistant", "content": "a"},
            {"role": "user", "content": "b"}]});
        assert_eq!(of(next), first);
        assert_ne!(
            of(json!({"messages": [{"role": "user", "content": "hallo"}]})),
            first
        );
        let chat = json!({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]});
        let other = json!({"messages": [{"role": "system", "content": "t"}, {"role": "user", "content": "u"}]});
        assert_eq!(
            Endpoint::chat().beginning(&chat),
            Endpoint::chat().beginning(&other)
        );
        let one = json!({"input": "hello"});
        assert!(Endpoint::responses().beginning(&one).is_some());
        assert!(Endpoint::Models.beginning(&one).is_none());
    }
}
