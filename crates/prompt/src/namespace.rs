//! The parameters that the provider's cache depends on, in addition to the pieces.
//!
//! | parameter | Anthropic Messages, Converse | OpenAI Chat, Responses |
//! |---|---|---|
//! | the format itself | tools | tools |
//! | `model` | tools | tools |
//! | `tool_choice` | messages | – |
//! | `parallel_tool_calls` | messages | tools |
//! | `reasoning` | tools (the invalidated part differs by model) | tools |
//! | `output` | tools (the provider inserts a text before ours) | tools |
//! | `cache_key` | – (not sent) | tools |
//! | `extra` | by its name; unknown ones: tools | by its name; unknown ones: tools |
//! | `max_output_tokens`, `temperature`, `top_p`, `stop` | – | – |
//!
//! The level is the first whose pieces may be invalidated by a change of the parameter, according to the
//! providers' documentation (platform.claude.com, "Prompt caching", what invalidates the cache;
//! developers.openai.com, "Prompt caching", settings that affect the prefix). Where the documentation is
//! silent or leaves it to the model, it is the first level.

use cachalot_core::{Canonical, Digest};
use cachalot_model::wire::for_format;
use cachalot_model::{Format, Parameters};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Level;
use crate::{hex_digest, normal};

/// A parameter that the provider's cache depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Field {
    /// The first level that a change of the parameter invalidates.
    pub level: Level,
    /// The name; for a member of [`Parameters::extra`], `extra.` and its name.
    pub name: String,
    /// The digest of the value: keys sorted, numbers exact.
    #[serde(with = "hex_digest")]
    pub digest: Digest,
}

/// The parameters of a request that the provider's cache depends on, as digests. Requests with equal
/// namespaces share their common prefix; the [module](self) documentation has the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Sorted by level, then by name.
    fields: Vec<Field>,
}

impl Namespace {
    /// Creates the namespace of a request with these parameters in this format.
    #[must_use]
    pub fn new(format: Format, parameters: &Parameters) -> Self {
        // Destructured exhaustively, so that a new parameter cannot be forgotten.
        let Parameters {
            model,
            max_output_tokens: _,
            temperature: _,
            top_p: _,
            stop: _,
            tool_choice,
            parallel_tool_calls,
            reasoning,
            output,
            cache_key,
            extra,
        } = parameters;
        let rules = for_format(format).request_rules();
        let ours = [
            ("format", value(&format)),
            ("model", json!(model)),
            ("tool_choice", value(tool_choice)),
            ("parallel_tool_calls", json!(parallel_tool_calls)),
            ("reasoning", value(reasoning)),
            ("output", value(output)),
            ("cache_key", json!(cache_key)),
        ];
        let ours = ours
            .into_iter()
            // An omitted parameter and its default value are equivalent: no field for either.
            .filter(|(name, value)| !is_default_value(name, value, format, model))
            .filter_map(|(name, value)| {
                Some((rules.parameter_level(name)?, name.to_owned(), value))
            });
        let theirs = extra.iter().filter_map(|(name, value)| {
            let level = rules.member_level(name)?;
            let value = normal::member(format, model, name, value.clone())?;
            Some((level, format!("extra.{name}"), value))
        });
        let mut fields: Vec<Field> = ours
            .chain(theirs)
            .map(|(level, name, value)| Field {
                level,
                name,
                digest: Canonical::value(&value).digest(),
            })
            .collect();
        fields.sort_by(|one, other| (one.level, &one.name).cmp(&(other.level, &other.name)));
        Self { fields }
    }

    /// Creates the namespace of a request body of any client: its members other than the pieces, under
    /// their names in the wire format, in their [normal form](crate::normal). Members that no provider
    /// documents are ignored. Not comparable with a namespace of [`Parameters`], which uses our own
    /// names.
    #[must_use]
    pub fn of_members(format: Format, model: &str, members: &[(&[u8], &[u8])]) -> Self {
        let rules = for_format(format).request_rules();
        let mut fields: Vec<Field> = members
            .iter()
            .filter_map(|(name, value)| {
                let name = std::str::from_utf8(name).ok()?;
                let level = rules
                    .member_level(name)
                    .filter(|_| WITH_EFFECT.contains(&name))?;
                let digest = match serde_json::from_slice(value) {
                    Ok(value) => {
                        let value = normal::member(format, model, name, value)?;
                        Canonical::value(&value).digest()
                    }
                    Err(_) => Digest::sha256(value),
                };
                Some(Field {
                    level,
                    name: name.to_owned(),
                    digest,
                })
            })
            .collect();
        fields.sort_by(|one, other| (one.level, &one.name).cmp(&(other.level, &other.name)));
        Self { fields }
    }

    /// The fields, sorted by level, then by name.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The digest of all fields that the pieces of `level` depend on: those of the level and of the
    /// levels before it.
    #[must_use]
    pub fn fingerprint(&self, level: Level) -> Digest {
        let fields = self.fields.iter().filter(|field| field.level <= level);
        let parts: Vec<&[u8]> = fields
            .flat_map(|field| [field.name.as_bytes(), field.digest.as_bytes().as_slice()])
            .collect();
        Digest::sha256_of_parts(&parts)
    }

    /// The first field, in the order of levels, that differs.
    #[must_use]
    pub fn difference<'a>(&'a self, other: &'a Self) -> Option<&'a Field> {
        let lacks = |fields: &[Field], field: &Field| !fields.contains(field);
        let ours = self.fields.iter().find(|field| lacks(&other.fields, field));
        let theirs = other.fields.iter().find(|field| lacks(&self.fields, field));
        ours.into_iter()
            .chain(theirs)
            .min_by_key(|field| field.level)
    }
}

fn value(of: &impl Serialize) -> Value {
    // Our own types with plain fields: a failure would count as absent in both requests, and change
    // nothing.
    serde_json::to_value(of).unwrap_or(Value::Null)
}

/// True if one of our parameters is absent or has its default value.
fn is_default_value(name: &str, value: &Value, format: Format, model: &str) -> bool {
    let effort = value.get("effort").and_then(Value::as_str);
    match (name, value) {
        (_, Value::Null) => true,
        ("tool_choice", value) => *value == "auto",
        ("parallel_tool_calls", value) => *value == true,
        ("reasoning", _) if for_format(format).request_rules().omits_default_effort => {
            effort.is_some() && effort == normal::default_effort(format, model)
        }
        _ => false,
    }
}

/// Members of request bodies that affect the model's input or the routing, according to the providers'
/// documentation. Clients and gateways may add members of their own, which no model sees.
const WITH_EFFECT: [&str; 46] = [
    "anthropic_beta",
    "anthropic_version",
    "audio",
    "betas",
    "chat_template_kwargs",
    "citations",
    "container",
    "context_management",
    "disable_parallel_tool_use",
    "documents",
    "effort",
    "enable_thinking",
    "function_call",
    "functions",
    "include_reasoning",
    "inference_geo",
    "instructions",
    "mcp_servers",
    "modalities",
    "model",
    "models",
    "output",
    "output_config",
    "output_format",
    "parallel_tool_calls",
    "plugins",
    "prompt",
    "prompt_cache_key",
    "provider",
    "reasoning",
    "reasoning_effort",
    "reasoning_format",
    "response_format",
    "route",
    "service_tier",
    "speed",
    "system",
    "text",
    "thinking",
    "thinking_budget",
    "tool_choice",
    "tools",
    "transforms",
    "truncation",
    "verbosity",
    "web_search_options",
];
