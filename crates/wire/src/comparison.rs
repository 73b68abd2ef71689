//! Prompt-cache diagnostics: a request names an earlier answer, and the provider compares the request with
//! the one that produced that answer.
//!
//! - Anthropic, Messages: `diagnostics.previous_message_id`. Every request needs `diagnostics`, the first
//!   with null: the provider keeps digests of such requests only. Not on Bedrock or Vertex. No beta header
//!   (<https://platform.claude.com/docs/en/build-with-claude/cache-diagnostics>).
//! - OpenAI, Responses, GPT-5.6 and later: `prompt_cache_options.comparison_response_id`
//!   (<https://developers.openai.com/api/docs/guides/prompt-caching/diagnostics>).
//!
//! Both parameters follow the messages in the body and are not part of the cached prefix.

use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorKind};
use crate::{Format, MarkerRules, MarkerStyle, Parameters};

/// The parameter that asks a provider to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonParameter {
    /// Anthropic's.
    Anthropic,
    /// `OpenAI`'s.
    OpenAi,
}

impl ComparisonParameter {
    const ALL: [Self; 2] = [Self::Anthropic, Self::OpenAi];

    /// Returns the parameter for this provider; `None` if it does not compare requests in this format, or
    /// not those of a model with this marking.
    pub fn find(provider: &str, format: Format, marker_rules: &MarkerRules) -> Option<Self> {
        match (provider, format, marker_rules.style) {
            ("anthropic", Format::Messages, _) => Some(Self::Anthropic),
            // The models that compare requests are those that accept breakpoints.
            ("openai", Format::Responses, MarkerStyle::Breakpoints) => Some(Self::OpenAi),
            _ => None,
        }
    }

    /// Returns the member of the body, and the field of that member that holds the id.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Anthropic => ("diagnostics", "previous_message_id"),
            Self::OpenAi => ("prompt_cache_options", "comparison_response_id"),
        }
    }

    /// Adds the id of an earlier answer to the parameters of a request. A value that the user configured
    /// for the same field is kept.
    pub fn name(self, parameters: &mut Parameters, previous: Option<&str>) {
        let (member, id) = self.names();
        let extra = &mut parameters.extra;
        match (self, extra.get_mut(member), previous) {
            (Self::Anthropic, None, _) | (Self::OpenAi, None, Some(_)) => {
                extra.insert(member.to_owned(), json!({ id: previous }));
            }
            (Self::OpenAi, Some(Value::Object(options)), Some(previous)) => {
                options.entry(id).or_insert_with(|| previous.into());
            }
            _ => {}
        }
    }

    /// Returns true if this member of a body may name an earlier answer.
    #[must_use]
    pub fn is_member(member: &str) -> bool {
        let mut names = Self::ALL.into_iter().map(Self::names);
        names.any(|(known, _)| known == member)
    }

    /// Returns the id that a request names; `member` is a member of its body.
    #[must_use]
    pub fn previous_id(member: &str, value: &Value) -> Option<String> {
        let names = Self::ALL.map(Self::names);
        let (_, id) = names.into_iter().find(|(known, _)| *known == member)?;
        value.get(id)?.as_str().map(str::to_owned)
    }

    /// Returns the id that a request names in the part after its messages.
    #[must_use]
    pub fn previous_id_in_tail(tail: &[u8]) -> Option<String> {
        let mut members = tail.to_vec();
        *members.first_mut()? = b'{';
        let members: Map<String, Value> = serde_json::from_slice(&members).ok()?;
        members
            .iter()
            .find_map(|(name, value)| Self::previous_id(name, value))
    }

    /// Returns true if an error rejects the parameter itself.
    #[must_use]
    pub fn is_refused_by(self, error: &Error) -> bool {
        let (member, id) = self.names();
        let name = match self {
            Self::Anthropic => member,
            Self::OpenAi => id,
        };
        error.kind == ErrorKind::Rejected && error.message.contains(name)
    }
}
