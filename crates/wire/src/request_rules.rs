//! Facts about the requests of a format, as any client writes them.

use serde_json::{Map, Value};

use crate::{Capabilities, Level, Thinking};

/// Facts about the requests of a format, by which any client's request is recognized, read and compared.
///
/// Sources: the OpenAPI documents of OpenAI, and the prompt-caching and effort pages of platform.claude.com.
#[derive(Debug, Clone, Copy)]
pub struct RequestRules {
    /// The provider that defines the format.
    pub provider: &'static str,
    /// The gateway to which a request with Anthropic's cache markers goes, in a format that has no such markers.
    pub marking_gateway: Option<&'static str>,
    /// The providers that accept the format; `None` if all do.
    pub served_by: Option<&'static [&'static str]>,
    /// Members of a body that only this format has.
    pub own_members: &'static [&'static str],
    /// True if leading messages with the role `system` or `developer` are the system text.
    pub system_in_messages: bool,
    /// True if the elements of the system text are blocks, not messages.
    pub has_system_blocks: bool,
    /// The types of a text block in a message of the user and in one of the model, if a string is read as a list of
    /// one such block; `None` if a string stays a string.
    pub text_blocks: Option<(&'static str, &'static str)>,
    /// True if a list of one text block is read as a string.
    pub reads_list_as_string: bool,
    /// True if messages of the model may carry cache markers.
    pub marks_answers: bool,
    /// Members with default values, in addition to those of all formats.
    pub defaults: &'static [DefaultMember],
    /// The effort of a request without one, for models of which the catalog has none.
    pub default_effort: Option<&'static str>,
    /// Members of a body whose value is an effort.
    pub effort_members: &'static [&'static str],
    /// True if reasoning with the default effort is the same as no setting of it.
    pub omits_default_effort: bool,
    /// Removes from a member of a body what has its default value or does not reach the model.
    pub normalize_member: fn(&str, &mut Map<String, Value>, &ModelDefaults<'_>),
    /// Levels from which on a change of one of our parameters invalidates the cache; `None` if it invalidates nothing.
    /// Other parameters invalidate everything.
    pub parameter_levels: &'static [(&'static str, Option<Level>)],
    /// The same for members of a body.
    pub member_levels: &'static [(&'static str, Option<Level>)],
    /// True if the provider renders its tools for the web behind the other tools, with the system text.
    pub renders_web_tools_apart: bool,
    /// True if a request that contains tool calls must define tools.
    pub needs_tools_for_calls: bool,
    /// True if a request must limit its answer (`max_tokens`).
    pub needs_output_limit: bool,
    /// True if cache writes are counted by their lifetime.
    pub counts_write_lifetimes: bool,
}

impl RequestRules {
    /// A format of which nothing is known.
    pub const PLAIN: Self = Self {
        provider: "",
        marking_gateway: None,
        served_by: None,
        own_members: &[],
        system_in_messages: true,
        has_system_blocks: false,
        text_blocks: None,
        reads_list_as_string: false,
        marks_answers: true,
        defaults: &[],
        default_effort: None,
        effort_members: &["reasoning_effort"],
        omits_default_effort: true,
        normalize_member: |_, _, _| {},
        parameter_levels: &[],
        member_levels: &[],
        renders_web_tools_apart: false,
        needs_tools_for_calls: false,
        needs_output_limit: false,
        counts_write_lifetimes: false,
    };

    /// Returns the effort of a request without one.
    #[must_use]
    pub fn effort<'a>(&self, model: &ModelDefaults<'a>) -> Option<&'a str> {
        model.effort.or(self.default_effort)
    }

    /// Returns the first level that a change of one of our parameters invalidates.
    #[must_use]
    pub fn parameter_level(&self, name: &str) -> Option<Level> {
        level(self.parameter_levels, name)
    }

    /// Returns the first level that a change of a member of a body invalidates.
    #[must_use]
    pub fn member_level(&self, name: &str) -> Option<Level> {
        if WITHOUT_EFFECT.contains(&name) {
            None
        } else {
            level(self.member_levels, name)
        }
    }
}

fn level(levels: &[(&str, Option<Level>)], name: &str) -> Option<Level> {
    let known = levels.iter().find(|(other, _)| *other == name);
    known.map_or(Some(Level::Tool), |(_, level)| *level)
}

/// Members that control only the sampling, delivery or accounting of an answer.
const WITHOUT_EFFECT: [&str; 26] = [
    "background",
    "cache_control",
    "diagnostics",
    "frequency_penalty",
    "include",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "metadata",
    "n",
    "prediction",
    "presence_penalty",
    "safety_identifier",
    "seed",
    "stop",
    "stop_sequences",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "top_k",
    "top_logprobs",
    "top_p",
    "user",
];

/// The kinds of objects whose members the provider defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A tool.
    Tool,
    /// A message or an item.
    Message,
    /// A block of a message or of the system text.
    Block,
    /// Part of a tool, call or block.
    Part,
}

/// A member with its default value.
#[derive(Debug, Clone, Copy)]
pub struct DefaultMember {
    /// The kind of object.
    pub shape: Shape,
    /// The name.
    pub name: &'static str,
    /// The value as JSON.
    pub value: &'static str,
}

impl DefaultMember {
    /// Creates a row.
    #[must_use]
    pub const fn new(shape: Shape, name: &'static str, value: &'static str) -> Self {
        Self { shape, name, value }
    }
}

/// Default values of a model, from the catalog.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModelDefaults<'a> {
    /// The effort of a request without one.
    pub effort: Option<&'a str>,
    /// True if the model always thinks, and requests cannot disable that.
    pub thinks_always: bool,
}

impl<'a> ModelDefaults<'a> {
    /// Creates the defaults of a model with these capabilities.
    #[must_use]
    pub fn new(capabilities: Option<&'a Capabilities>) -> Self {
        let effort = capabilities.and_then(|listed| listed.default_effort.as_deref());
        let thinking = capabilities.and_then(|listed| listed.thinking);
        Self {
            effort,
            thinks_always: thinking == Some(Thinking::AlwaysOn),
        }
    }
}

/// Removes a member whose value is a default.
pub(crate) fn without(
    object: &mut Map<String, Value>,
    name: &str,
    is_default: impl Fn(&str) -> bool,
) {
    let value = object.get(name).and_then(Value::as_str);
    if value.is_some_and(is_default) {
        object.shift_remove(name);
    }
}
