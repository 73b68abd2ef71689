//! Settings of a model or provider in YAML.

use std::fmt;
use std::time::Duration;

use cachalot_core::config::{
    Custom, Literal, Parameter, ParameterKind as Kind, Table, Values, key, no_effect, required,
    section, words,
};
use cachalot_core::tree::MapEntry;
use cachalot_core::{Problem, Secret};
use cachalot_storage::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::docker_options;
use crate::duration::DURATION;
use crate::{Extra, Format, OutputFormat, Price, RequestedReasoning, address};
use cachalot_accounting::PRICE_KEYS;

/// Settings of one model or provider as written; no defaults are filled in.
#[derive(Clone, Default, PartialEq)]
pub struct ModelSettings {
    /// `provider`: a name of `providers:`, or a built-in provider.
    pub provider: Option<String>,
    /// `model`: its name at the provider. If `provider` is missing, the name has the provider as prefix
    /// (`openai/gpt-4o`) or implies it (`gpt-4o`).
    pub model: Option<String>,
    /// `base_url`: address of the provider.
    pub base_url: Option<String>,
    /// `token_key`: environment variable with the key.
    pub token_key: Option<String>,
    /// `key_header`: header that carries the key.
    pub key_header: Option<String>,
    /// `headers`: additional headers of every request.
    pub headers: Vec<(String, Secret<String>)>,
    /// `format`: `chat`, `responses`, `messages`, `gemini`, `interactions` or `converse`.
    pub format: Option<Format>,
    /// `temperature`.
    pub temperature: Option<f64>,
    /// `top_p`.
    pub top_p: Option<f64>,
    /// `max_tokens`: maximum number of output tokens, including reasoning.
    pub max_tokens: Option<u64>,
    /// `stop`: stop sequences.
    pub stop: Option<Vec<String>>,
    /// `reasoning_effort` or `thinking_budget`.
    pub reasoning: Option<RequestedReasoning>,
    /// `parallel_tool_calls`.
    pub parallel_tool_calls: Option<bool>,
    /// `structured_output`: `name`, `schema`, `strict`.
    pub structured_output: Option<OutputFormat>,
    /// `provider_opts`: additional fields of every request, sent unchanged.
    pub provider_opts: Extra,
    /// `cost`: price of tokens.
    pub cost: Option<Price>,
    /// `prices`: the provider whose prices, limits and rules for cache markers apply.
    pub prices: Option<String>,
    /// `context`: size of the context window in tokens.
    pub context: Option<u64>,
    /// `timeouts`.
    pub timeouts: Timeouts,
    /// `retries`: maximum number of retries.
    pub retries: Option<u32>,
    /// `fallbacks`: names of models that are called in this order when this one fails.
    pub fallbacks: Option<Vec<String>>,
    /// `first_available`: names of models, of which the first one with a key answers.
    pub first_available: Option<Vec<String>>,
    /// `provider` of a provider: the provider whose address, key and format it has, unless it sets its own.
    pub extends: Option<String>,
    /// `compaction_threshold`: precedes that of agents with this model.
    pub compaction_threshold: Option<f64>,
    /// Environment variables that the settings name and that are not set. The model cannot be called.
    pub unset: Vec<String>,
}

/// Timeouts; `None` means the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// `connect`: for establishing a connection. Default: 10 s.
    pub connect: Option<Duration>,
    /// `first_byte`: for the first byte of the answer, including the connection. Default: 10 min.
    pub first_byte: Option<Duration>,
    /// `idle`: for the next byte. Default: 2 min.
    pub idle: Option<Duration>,
    /// `total`: for one try, from connecting to the last byte. Default: no limit.
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
    /// Reads the values of a table with [`MODEL_KEYS`] and [`PROVIDER_KEYS`].
    pub fn read(values: Values<'_>, problems: &mut Vec<Problem>) -> Self {
        Self {
            provider: values.string("provider"),
            model: values.string("model"),
            fallbacks: values.texts("fallbacks"),
            ..Self::read_provider(values, problems)
        }
    }

    /// Reads the values of an entry of `models`: those of [`MODEL`].
    pub(crate) fn read_entry(values: Values<'_>, problems: &mut Vec<Problem>) -> Self {
        let first_available = values.texts("first_available");
        let first_available = first_available.filter(|candidates| !candidates.is_empty());
        if first_available.is_none() && values.node("model").is_none() {
            let problem = Problem::new("missing-key", "a model needs `model`");
            problems.push(match values.entry("model") {
                Some(empty) => problem
                    .at(&empty.key_place)
                    .help("write a value after the colon"),
                None => problem.at(&values.mapping().head()).help("add `model: …`"),
            });
        }
        Self {
            first_available,
            compaction_threshold: values.number("compaction_threshold"),
            ..Self::read(values, problems)
        }
    }

    /// Reads the values of a table with [`PROVIDER_KEYS`].
    pub(crate) fn read_provider(values: Values<'_>, problems: &mut Vec<Problem>) -> Self {
        let trimmed = |key| values.text(key).map(|text| text.trim().to_owned());
        let headers = values.map("headers").iter();
        let mut options = docker_options::read(values, read_header, problems);
        for penalty in ["frequency_penalty", "presence_penalty"] {
            if let Some(node) = values.node(penalty) {
                let extra = &mut options.extra;
                extra.entry(penalty).or_insert_with(|| node.to_value());
            }
        }
        Self {
            provider: None,
            model: None,
            base_url: trimmed("base_url").filter(|url| !url.is_empty() && !url.contains("${")),
            token_key: trimmed("token_key").filter(|text| is_variable(text)),
            key_header: trimmed("key_header"),
            headers: headers
                .filter_map(|entry| read_header(entry).ok())
                .chain(options.headers)
                .collect(),
            format: values
                .choice("format", &Format::NAMES)
                .or(values.choice("api_type", &API_TYPES))
                .or(options.format),
            temperature: values.number("temperature"),
            top_p: values.number("top_p"),
            max_tokens: values.integer("max_tokens"),
            stop: values.texts("stop"),
            reasoning: read_reasoning(values, problems),
            parallel_tool_calls: values.boolean("parallel_tool_calls"),
            structured_output: values.table("structured_output").and_then(read_output),
            provider_opts: options.extra,
            cost: values
                .table("cost")
                .and_then(|cost| read_cost(cost, problems)),
            prices: values.string("prices"),
            context: values.integer("context").or(options.context),
            timeouts: values
                .table("timeouts")
                .map(read_timeouts)
                .unwrap_or_default(),
            retries: values.integer("retries"),
            fallbacks: None,
            first_available: None,
            extends: None,
            compaction_threshold: None,
            unset: Vec::new(),
        }
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

const FORMAT_WORDS: [&str; 6] = words(&Format::NAMES);

const MODEL_DOC: &str = "The model's name, as the provider knows it.";
#[rustfmt::skip]
const PROVIDER_NAME: Parameter = key("provider", Kind::Text, "The provider: a key of `providers`, or one that is known.");
#[rustfmt::skip]
const FALLBACKS: Parameter = key("fallbacks", Kind::Texts, "Models that are asked in this order when this one does not answer.");

/// The keys of a model that a provider does not have, all of them optional.
pub const MODEL_KEYS: &[Parameter] = &[
    PROVIDER_NAME,
    key("model", Kind::Text, MODEL_DOC),
    FALLBACKS,
];

/// The keys of an entry of `models`.
#[rustfmt::skip]
pub static MODEL: Table = Table::new(
    "a model",
    "A model.",
    &[
        &[
            PROVIDER_NAME,
            key("model", Kind::Text, MODEL_DOC),
            FALLBACKS,
            key("first_available", Kind::Texts, "Models of which the first one with a key answers, in place of `model`."),
            key("compaction_threshold", Kind::NumberIn(0.0, 1.0), "Precedes `compaction_threshold` of agents with this model."),
        ],
        PROVIDER_KEYS,
        MODEL_KEYS_OF_OTHERS,
        KEYS_OF_OTHERS,
    ],
);

/// Keys of models in docker-agent that change nothing here.
#[rustfmt::skip]
const MODEL_KEYS_OF_OTHERS: &[Parameter] = &[
    no_effect("bypass_models_gateway", "requests go to the provider directly, or to `base_url`"),
    no_effect("capabilities", "pictures are sent, unless the catalog says that the model takes none; see `strip_unsupported_modalities` of agents"),
    no_effect("routing", "the model of this entry answers every message; give other agents the other models, and name them in `handoffs` or `sub_agents`"),
    no_effect("title_model", "the title of a session is the beginning of its first message"),
    no_effect("compaction_model", "the agent's own model summarizes, which has the conversation in the provider's cache; `compaction: {model: …}` of an agent names another one"),
];

/// Keys of models and providers in docker-agent that change nothing here.
#[rustfmt::skip]
const KEYS_OF_OTHERS: &[Parameter] = &[
    no_effect("track_usage", "usage is always counted"),
    no_effect("task_budget", "`max_tokens` limits an answer, and `budget` of the file a whole chat"),
    no_effect("auth", "requests carry the key in the environment variable that `token_key` names"),
    no_effect("unload_api", "the `unload` hook takes the address as its argument"),
];

/// Names of formats in docker-agent.
const API_TYPES: [(&str, Format); 2] = [
    ("openai_chatcompletions", Format::Chat),
    ("openai_responses", Format::Responses),
];
const API_TYPE_WORDS: [&str; 2] = words(&API_TYPES);

/// The keys of an entry of `providers`.
#[rustfmt::skip]
pub static PROVIDER: Table = Table::new(
    "a provider",
    "A provider.",
    &[
        &[
            key("provider", Kind::Text, "The provider whose address, key and format it has, where it sets none of its own."),
        ],
        PROVIDER_KEYS,
        KEYS_OF_OTHERS,
    ],
);

/// The keys that providers and models share.
#[rustfmt::skip]
pub const PROVIDER_KEYS: &[Parameter] = &[
    key("base_url", Kind::Custom(&BASE_URL), "The address of the provider; a query (`?api-version=…`) is kept."),
    key("token_key", Kind::Custom(&TOKEN_KEY), "The environment variable that holds the key."),
    key("key_header", Kind::Custom(&KEY_HEADER), "The header that carries the key."),
    key("headers", Kind::Custom(&HEADERS), "Additional headers of every request."),
    key("format", Kind::Word(&FORMAT_WORDS), "The format of requests: `chat`, `responses`, `messages`, `gemini`, `interactions` or `converse`."),
    key("api_type", Kind::Word(&API_TYPE_WORDS), "The same as `format`: `openai_chatcompletions` is `chat`, `openai_responses` is `responses`."),
    key("temperature", Kind::NumberIn(0.0, 10.0), "The sampling temperature."),
    key("top_p", Kind::NumberIn(0.0, 1.0), "The limit of nucleus sampling."),
    key("frequency_penalty", Kind::Number, "Reduces the probability of tokens by the number of their occurrences."),
    key("presence_penalty", Kind::Number, "Reduces the probability of tokens that have occurred."),
    key("max_tokens", COUNT, "The maximum number of tokens of an answer, reasoning included."),
    key("stop", Kind::Texts, "Texts at which an answer ends."),
    key("reasoning_effort", Kind::Text, "The reasoning effort: `minimal`, `low`, `medium`, `high`, …"),
    key("thinking_budget", Kind::Custom(&THINKING_BUDGET), "The maximum number of thinking tokens, or an effort."),
    key("parallel_tool_calls", Kind::Boolean, "Allows several tool calls in one answer."),
    section("structured_output", &STRUCTURED_OUTPUT),
    key("provider_opts", Kind::Object, "Additional fields of the request, sent unchanged."),
    section("cost", &COST),
    key("prices", Kind::Text, "The provider whose prices, limits and cache markers apply, if it is another one."),
    key("context", COUNT, "The size of the context window in tokens."),
    key("timeouts", Kind::Table(&TIMEOUTS), "The timeouts of requests."),
    key("retries", Kind::IntegerIn(0, 10), "The maximum number of retries of a request; 2 by default."),
];

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
                .ok_or_else(|| "is not the name of an environment variable; write the key into one, and its name here".to_owned())
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

static THINKING_BUDGET: Custom = Custom {
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

const COUNT: Kind = Kind::IntegerIn(1, u64::MAX);

#[rustfmt::skip]
static STRUCTURED_OUTPUT: Table = Table::new(
    "`structured_output`",
    "The answer is JSON that matches a schema.",
    &[&[
        key("name", Kind::Text, "The name of the shape.").default(Literal::Text("answer")),
        required("schema", Kind::Object, "Its JSON Schema."),
        key("strict", Kind::Boolean, "Requires the provider to enforce the schema.").default(Literal::Boolean(true)),
    ]],
);

static COST: Table = Table::new("`cost`", "The prices of tokens.", &PRICE_KEYS);

#[rustfmt::skip]
static TIMEOUTS: Table = Table::new(
    "`timeouts`",
    "The timeouts of requests: durations such as `250ms`, `30s`, `10m`, `1h30m`.",
    &[&[
        key("connect", DURATION, "The timeout for establishing a connection; 10 s by default."),
        key("first_byte", DURATION, "The timeout for the first byte of the answer, including the connection; 10 min by default."),
        key("idle", DURATION, "The timeout for the next byte; 2 min by default."),
        key("total", DURATION, "The timeout of one attempt, from connecting to the last byte; none by default."),
    ]],
);

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

fn read_reasoning(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<RequestedReasoning> {
    let effort = values.text("reasoning_effort");
    match (effort, values.node("thinking_budget")) {
        (Some(effort), None) => Some(RequestedReasoning::Effort(effort.to_owned())),
        (None, Some(budget)) => match budget.as_text() {
            // Other runtimes write an effort in this place.
            Some(effort) => Some(RequestedReasoning::Effort(
                effort_of_budget(effort).to_owned(),
            )),
            None => match budget.as_u64() {
                Some(0) => Some(RequestedReasoning::Effort("none".to_owned())),
                budget => budget.map(RequestedReasoning::Budget),
            },
        },
        (Some(_), Some(budget)) => {
            let what = "`reasoning_effort` and `thinking_budget` exclude each other";
            let problem = Problem::new("bad-value", what).at(&budget.place);
            problems.push(problem.help("keep one of them"));
            None
        }
        (None, None) => None,
    }
}

fn read_output(values: Values<'_>) -> Option<OutputFormat> {
    Some(OutputFormat {
        name: values.string("name")?,
        schema: values.node("schema")?.to_value(),
        strict: values.boolean("strict")?,
    })
}

fn read_cost(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<Price> {
    let is_empty = COST.parameters().all(|it| values.node(it.name).is_none());
    if is_empty {
        problems.push(
            Problem::new("missing-key", "`cost` needs `input` and `output`")
                .at(&values.mapping().head())
                .help("write both, in dollars per million tokens; 0 if it costs nothing"),
        );
    }
    Price::read(values, problems)
}

fn read_timeouts(values: Values<'_>) -> Timeouts {
    let read = |key| values.duration(key);
    Timeouts {
        connect: read("connect"),
        first_byte: read("first_byte"),
        idle: read("idle"),
        total: read("total"),
    }
}
