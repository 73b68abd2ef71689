//! Settings of a model or provider in YAML.

use std::fmt;
use std::time::Duration;

use cachalot_core::config::{
    Custom, Parameter, ParameterKind as Kind, Settings, Table, Values, key, no_effect, words,
};
use cachalot_core::duration::{Range, YEAR};
use cachalot_core::tree::{MapEntry, Node};
use cachalot_core::{Problem, Secret};
use cachalot_storage::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::docker_options;
use crate::duration::DURATION;
use crate::{Extra, Format, OutputFormat, Price, RequestedReasoning, address};

/// A model.
///
/// The settings of one model or provider as written; no defaults are filled in.
#[derive(Clone, Default, PartialEq, Settings)]
#[settings(name = "a model", also = KEYS_OF_OTHERS, check = complete)]
pub struct ModelSettings {
    /// The provider: a key of `providers`, or one that is known.
    pub provider: Option<String>,
    /// The model's name, as the provider knows it.
    ///
    /// If `provider` is missing, the name has the provider as prefix (`openai/gpt-4o`) or implies it (`gpt-4o`).
    pub model: Option<String>,
    /// Models that are asked in this order when this one does not answer.
    pub fallbacks: Option<Vec<String>>,
    /// Models of which the first one with a key answers, in place of `model`.
    pub first_available: Option<Vec<String>>,
    /// Precedes `compaction_threshold` of agents with this model.
    #[setting(range = 0.0..=1.0)]
    pub compaction_threshold: Option<f64>,
    /// The address of the provider; a query (`?api-version=…`) is kept.
    #[setting(kind = Kind::Custom(&BASE_URL), with = base_url)]
    pub base_url: Option<String>,
    /// The environment variable that holds the key.
    #[setting(kind = Kind::Custom(&TOKEN_KEY), with = token_key)]
    pub token_key: Option<String>,
    /// The header that carries the key.
    #[setting(kind = Kind::Custom(&KEY_HEADER), with = trimmed)]
    pub key_header: Option<String>,
    /// Additional headers of every request.
    #[setting(kind = Kind::Custom(&HEADERS), with = headers)]
    pub headers: Vec<(String, Secret<String>)>,
    /// The format of requests: `chat`, `responses`, `messages`, `gemini`, `interactions` or `converse`.
    #[setting(then = API_TYPE)]
    pub format: Option<Format>,
    /// The sampling temperature.
    #[setting(range = 0.0..=10.0)]
    pub temperature: Option<f64>,
    /// The limit of nucleus sampling.
    #[setting(range = 0.0..=1.0, then = FREQUENCY_PENALTY, then = PRESENCE_PENALTY)]
    pub top_p: Option<f64>,
    /// The maximum number of tokens of an answer, reasoning included.
    #[setting(range = 1..)]
    pub max_tokens: Option<u64>,
    /// Texts at which an answer ends.
    pub stop: Option<Vec<String>>,
    /// The reasoning effort: `minimal`, `low`, `medium`, `high`, …
    #[setting(key = "reasoning_effort", kind = Kind::Text, with = effort, then = THINKING_BUDGET)]
    pub reasoning: Option<RequestedReasoning>,
    /// Allows several tool calls in one answer.
    pub parallel_tool_calls: Option<bool>,
    /// The answer is JSON that matches a schema.
    pub structured_output: Option<OutputFormat>,
    /// Additional fields of the request, sent unchanged.
    #[setting(default)]
    pub provider_opts: Extra,
    /// The prices of tokens.
    pub cost: Option<Price>,
    /// The provider whose prices, limits and cache markers apply, if it is another one.
    pub prices: Option<String>,
    /// The size of the context window in tokens.
    #[setting(range = 1..)]
    pub context: Option<u64>,
    /// The timeouts of requests.
    #[setting(default)]
    pub timeouts: Timeouts,
    /// The maximum number of retries of a request; 2 by default.
    #[setting(range = 0..=10)]
    pub retries: Option<u32>,
    /// The maximum time that a request waits for rate limits (status 429), beside `retries`; 5 min by default.
    #[setting(kind = Kind::Duration(Range::ANY.at_most(YEAR)))]
    pub rate_limit_wait: Option<Duration>,
    /// `provider` of a provider: the provider whose address, key and format it has, unless it sets its own.
    #[setting(skip)]
    pub extends: Option<String>,
    /// Environment variables that the settings name and that are not set. The model cannot be called.
    #[setting(skip)]
    pub unset: Vec<String>,
}

/// The timeouts of requests: durations such as `250ms`, `30s`, `10m`, `1h30m`.
///
/// `None` means the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Settings)]
#[settings(name = "`timeouts`")]
pub struct Timeouts {
    /// The timeout for establishing a connection; 10 s by default.
    #[setting(kind = DURATION)]
    pub connect: Option<Duration>,
    /// The timeout for the first byte of the answer, including the connection; 10 min by default.
    #[setting(kind = DURATION)]
    pub first_byte: Option<Duration>,
    /// The timeout for the next byte; 2 min by default.
    #[setting(kind = DURATION)]
    pub idle: Option<Duration>,
    /// The timeout of one attempt, from connecting to the last byte; none by default.
    #[setting(kind = DURATION)]
    pub total: Option<Duration>,
}

impl Timeouts {
    fn over(self, beneath: Self) -> Self {
        Self {
            connect: self.connect.or(beneath.connect),
            first_byte: self.first_byte.or(beneath.first_byte),
            idle: self.idle.or(beneath.idle),
            total: self.total.or(beneath.total),
        }
    }
}

impl ModelSettings {
    /// Reads an entry of `models`.
    pub(crate) fn read_entry(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        let mut settings = Self::from_values(values, problems)?;
        settings
            .first_available
            .take_if(|candidates| candidates.is_empty());
        if settings.first_available.is_none()
            && values.node("model").is_none()
            && values.misspelled("model").is_none()
        {
            let problem = Problem::new("missing-key", "a model needs `model`");
            problems.push(match values.entry("model") {
                Some(empty) => problem
                    .at(&empty.key_place)
                    .help("write a value after the colon"),
                None => problem.at(&values.mapping().head()).help("add `model: …`"),
            });
        }
        Some(settings)
    }

    /// Merges settings: values of `self` win, missing ones come from `beneath`.
    ///
    /// The settings that name an address also decide about the secrets. A `base_url` in `self` takes
    /// neither key nor headers from `beneath`; another `provider` takes no setting that belongs to the
    /// provider of `beneath`.
    #[must_use]
    pub fn over(self, beneath: &Self) -> Self {
        let other_provider = beneath.provider.is_some()
            && self.provider.is_some()
            && self.provider != beneath.provider;
        let mut beneath = if other_provider {
            Self {
                model: beneath.model.clone(),
                ..beneath.for_any_model()
            }
        } else {
            beneath.clone()
        };
        if self.base_url.is_some() {
            beneath.token_key = None;
            beneath.headers.clear();
        }
        let mut headers = self.headers;
        for (name, value) in beneath.headers {
            if !headers
                .iter()
                .any(|(known, _)| known.eq_ignore_ascii_case(&name))
            {
                headers.push((name, value));
            }
        }
        let mut provider_opts = beneath.provider_opts;
        provider_opts.extend(self.provider_opts);
        Self {
            headers,
            provider_opts,
            provider: self.provider.or(beneath.provider),
            model: self.model.or(beneath.model),
            base_url: self.base_url.or(beneath.base_url),
            token_key: self.token_key.or(beneath.token_key),
            key_header: self.key_header.or(beneath.key_header),
            format: self.format.or(beneath.format),
            temperature: self.temperature.or(beneath.temperature),
            top_p: self.top_p.or(beneath.top_p),
            max_tokens: self.max_tokens.or(beneath.max_tokens),
            stop: self.stop.or(beneath.stop),
            reasoning: self.reasoning.or(beneath.reasoning),
            parallel_tool_calls: self.parallel_tool_calls.or(beneath.parallel_tool_calls),
            structured_output: self.structured_output.or(beneath.structured_output),
            cost: self.cost.or(beneath.cost),
            prices: self.prices.or(beneath.prices),
            context: self.context.or(beneath.context),
            timeouts: self.timeouts.over(beneath.timeouts),
            retries: self.retries.or(beneath.retries),
            rate_limit_wait: self.rate_limit_wait.or(beneath.rate_limit_wait),
            fallbacks: self.fallbacks.or(beneath.fallbacks),
            first_available: self.first_available.or(beneath.first_available),
            extends: self.extends.or(beneath.extends),
            compaction_threshold: self.compaction_threshold.or(beneath.compaction_threshold),
            unset: [self.unset, beneath.unset].concat(),
        }
    }

    /// Returns the settings that apply to any model: form of the answer, timeouts, retries and fallbacks;
    /// without the model, its address and its price.
    #[must_use]
    pub fn for_any_model(&self) -> Self {
        Self {
            temperature: self.temperature,
            top_p: self.top_p,
            max_tokens: self.max_tokens,
            stop: self.stop.clone(),
            reasoning: self.reasoning.clone(),
            parallel_tool_calls: self.parallel_tool_calls,
            structured_output: self.structured_output.clone(),
            timeouts: self.timeouts,
            retries: self.retries,
            rate_limit_wait: self.rate_limit_wait,
            fallbacks: self.fallbacks.clone(),
            ..Self::default()
        }
    }
}

impl fmt::Debug for ModelSettings {
    /// Masks possible secrets in the query of a base URL; header values mask themselves.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelSettings")
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field(
                "base_url",
                &self.base_url.as_deref().map(cachalot_storage::masked),
            )
            .field("headers", &self.headers)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

/// The keys of a model that a provider does not have and that `settings.llm` has.
pub const MODEL_KEYS: &[Parameter] = ModelSettings::PARAMETERS.split_at(3).0;

/// The keys that providers and models share.
pub const PROVIDER_KEYS: &[Parameter] = ModelSettings::PARAMETERS.split_at(5).1;

/// Keys of models, and then of models and providers, in docker-agent that change nothing here.
#[rustfmt::skip]
const KEYS_OF_OTHERS: &[Parameter] = &[
    no_effect("description", "an agent chooses among agents: write it into the `description` of an agent with this model"),
    no_effect("output_capabilities", "the answer of a model is text"),
    no_effect("bypass_models_gateway", "requests go to the provider directly, or to `base_url`"),
    no_effect("capabilities", "pictures are sent, unless the catalog says that the model takes none; see `strip_unsupported_modalities` of agents"),
    no_effect("routing", "the model of this entry answers every message; give other agents the other models, and name them in `handoffs` or `sub_agents`"),
    no_effect("title_model", "the title of a session is the beginning of its first message"),
    no_effect("compaction_model", "the agent's own model summarizes, which has the conversation in the provider's cache; `compaction: {model: …}` of an agent names another one"),
    no_effect("track_usage", "usage is always counted"),
    no_effect("task_budget", "`max_tokens` limits an answer, and `budget` of the file a whole chat"),
    no_effect("auth", "requests carry the key in the environment variable that `token_key` names"),
    no_effect("unload_api", "the `unload` hook takes the address as its argument"),
];

/// The keys of an entry of `providers`, which [`ModelSettings`] reads.
#[rustfmt::skip]
pub static PROVIDER: Table = Table::new(
    "a provider",
    "A provider.",
    &[
        &[key("provider", Kind::Text, "The provider whose address, key and format it has, where it sets none of its own.")],
        PROVIDER_KEYS,
        KEYS_OF_OTHERS.split_at(6).1,
    ],
);

#[rustfmt::skip]
const API_TYPE: Parameter = key("api_type", Kind::Word(&words(&API_TYPES)), "The same as `format`: `openai_chatcompletions` is `chat`, `openai_responses` is `responses`.");
#[rustfmt::skip]
const FREQUENCY_PENALTY: Parameter = key("frequency_penalty", Kind::Number, "Reduces the probability of tokens by the number of their occurrences.");
#[rustfmt::skip]
const PRESENCE_PENALTY: Parameter = key("presence_penalty", Kind::Number, "Reduces the probability of tokens that have occurred.");
#[rustfmt::skip]
const THINKING_BUDGET: Parameter = key("thinking_budget", Kind::Custom(&BUDGET), "The maximum number of thinking tokens, or an effort.");

/// Names of formats in docker-agent.
const API_TYPES: [(&str, Format); 2] = [
    ("openai_chatcompletions", Format::Chat),
    ("openai_responses", Format::Responses),
];

/// Completes what several keys set.
fn complete(settings: &mut ModelSettings, values: Values<'_>, problems: &mut Vec<Problem>) {
    let mut options = docker_options::read(values, read_header, problems);
    for penalty in [FREQUENCY_PENALTY.name, PRESENCE_PENALTY.name] {
        if let Some(node) = values.node(penalty) {
            let extra = &mut options.extra;
            extra.entry(penalty).or_insert_with(|| node.to_value());
        }
    }
    settings.provider_opts = options.extra;
    settings.headers.extend(options.headers);
    let api_type = values.choice(API_TYPE.name, &API_TYPES);
    settings.format = settings.format.or(api_type).or(options.format);
    settings.context = settings.context.or(options.context);
    let Some(budget) = values.node(THINKING_BUDGET.name) else {
        return;
    };
    if settings.reasoning.is_some() {
        let what = "`reasoning_effort` and `thinking_budget` exclude each other";
        let problem = Problem::new("bad-value", what).at(&budget.place);
        problems.push(problem.help("keep one of them"));
    } else {
        settings.reasoning = reasoning_of_budget(budget);
    }
}

fn trimmed(node: &Node) -> Option<String> {
    node.as_text().map(|text| text.trim().to_owned())
}

fn base_url(node: &Node) -> Option<String> {
    trimmed(node).filter(|url| !url.is_empty() && !url.contains("${"))
}

fn token_key(node: &Node) -> Option<String> {
    trimmed(node).filter(|text| is_variable(text))
}

fn headers(node: &Node) -> Option<Vec<(String, Secret<String>)>> {
    let headers = node.as_map()?.iter();
    Some(
        headers
            .filter_map(|entry| read_header(entry).ok())
            .collect(),
    )
}

fn effort(node: &Node) -> Option<RequestedReasoning> {
    Some(RequestedReasoning::Effort(node.as_text()?.to_owned()))
}

static BASE_URL: Custom = Custom {
    schema: Some(text_schema),
    check: |entry, problems| {
        check_text(entry, problems, |text| {
            if text.contains("${") {
                // A variable that is not set was reported before.
                Ok(())
            } else {
                let parsed = address::parse(text).map(|_| ());
                parsed.map_err(|wrong| wrong.to_string())
            }
        });
    },
};

static TOKEN_KEY: Custom = Custom {
    schema: Some(text_schema),
    check: |entry, problems| {
        check_text(entry, problems, |text| {
            // The text is not shown, because it may be the key itself.
            is_variable(text)
                .then_some(())
                .ok_or_else(|| "is not the name of an environment variable; write the key into one, and its name here, without `${…}`: `token_key: OPENAI_API_KEY`".to_owned())
        });
    },
};

static KEY_HEADER: Custom = Custom {
    schema: Some(text_schema),
    check: |entry, problems| {
        check_text(entry, problems, |text| {
            HeaderName::try_from(text)
                .map(|_| ())
                .map_err(|_| format!("is `{text}`, which is not the name of a header"))
        });
    },
};

static HEADERS: Custom = Custom {
    schema: Some(|| json!({ "type": "object", "additionalProperties": { "type": "string" } })),
    check: |entry, problems| {
        Kind::Object.check(entry, problems);
        let headers = entry.value.as_map().unwrap_or_default().iter();
        problems.extend(headers.filter_map(|header| read_header(header).err()));
    },
};

static BUDGET: Custom = Custom {
    schema: Some(
        || json!({ "anyOf": [{ "type": "integer", "minimum": -1 }, { "type": "string" }] }),
    ),
    check: |entry, problems| {
        let is_dynamic = entry.value.to_value() == DYNAMIC_BUDGET;
        if entry.value.as_text().is_none() && !is_dynamic {
            Kind::IntegerIn(0, u64::MAX).check(entry, problems);
        }
    },
};

/// The budget of a model that decides itself how much it thinks, which is the default of such models.
const DYNAMIC_BUDGET: i64 = -1;

/// The effort of a model that decides itself how much it thinks, unless one follows after a slash.
const ADAPTIVE: &str = "adaptive";
const ADAPTIVE_EFFORT: &str = "high";

/// Returns the effort that docker-agent writes in place of a budget: `low`, `adaptive` or `adaptive/low`.
fn effort_of_budget(text: &str) -> &str {
    match text.split_once('/') {
        Some((ADAPTIVE, effort)) => effort,
        None if text == ADAPTIVE => ADAPTIVE_EFFORT,
        _ => text,
    }
}

fn text_schema() -> Value {
    Kind::Text.schema(false)
}

/// Reports a value that is no text, or that `check` refuses. The error of `check` follows the key's name in
/// the message.
fn check_text(
    entry: &MapEntry,
    problems: &mut Vec<Problem>,
    check: impl FnOnce(&str) -> Result<(), String>,
) {
    Kind::Text.check(entry, problems);
    let Some(Err(wrong)) = entry.value.as_text().map(|text| check(text.trim())) else {
        return;
    };
    let (what, help) = wrong.split_once("; ").unwrap_or((&wrong, "write another"));
    let problem = Problem::new("bad-value", format!("`{}` {what}", entry.key));
    problems.push(problem.at(&entry.value.place).help(help));
}

fn is_variable(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Parses a header. Problems do not show its value.
fn read_header(entry: &MapEntry) -> Result<(String, Secret<String>), Problem> {
    const RESERVED_HEADERS: [&str; 5] = [
        "host",
        "content-length",
        "content-type",
        "transfer-encoding",
        "connection",
    ];
    let wrong = |what: String, help: &str| {
        Problem::new("bad-value", what)
            .at(&entry.key_place)
            .help(help)
    };
    let name = &entry.key;
    let Some(value) = entry.value.as_text() else {
        return Err(entry
            .value
            .wrong_type(&format!("the header `{name}`"), "text"));
    };
    if HeaderName::try_from(name.as_str()).is_err() {
        let what = format!("`{name}` is not the name of a header");
        return Err(wrong(what, "use letters, digits and dashes"));
    }
    if RESERVED_HEADERS
        .iter()
        .any(|ours| ours.eq_ignore_ascii_case(name))
    {
        let what = format!("the header `{name}` cannot be set");
        return Err(wrong(
            what,
            "take it out: it is what the request needs it to be",
        ));
    }
    if HeaderValue::from_str(value).is_err() {
        let what = format!("the value of the header `{name}` cannot be sent");
        return Err(wrong(what, "take out line ends and control characters"));
    }
    Ok((name.clone(), Secret::new(value.to_owned())))
}

fn reasoning_of_budget(budget: &Node) -> Option<RequestedReasoning> {
    // Other runtimes write an effort in this place.
    let effort = match budget.as_text() {
        Some(effort) => effort_of_budget(effort),
        None => match budget.as_u64()? {
            0 => "none",
            budget => return Some(RequestedReasoning::Budget(budget)),
        },
    };
    Some(RequestedReasoning::Effort(effort.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These lists are cut from others by position.
    #[test]
    fn parts_of_lists_have_the_keys_that_they_are_for() {
        let names = |keys: &[Parameter]| keys.iter().map(|key| key.name).collect::<Vec<_>>();
        assert_eq!(names(MODEL_KEYS), ["provider", "model", "fallbacks"]);
        assert_eq!(names(PROVIDER_KEYS)[..2], ["base_url", "token_key"]);
        let of_both = names(KEYS_OF_OTHERS.split_at(6).1);
        let expected = [
            "compaction_model",
            "track_usage",
            "task_budget",
            "auth",
            "unload_api",
        ];
        assert_eq!(of_both, expected);
    }
}
