//! Settings of a model or provider in YAML.

use std::fmt;
use std::time::Duration;

use cachalot_core::tree::{MapEntry, Section};
use cachalot_core::{Problem, Secret};
use cachalot_storage::header::{HeaderName, HeaderValue};
use serde_json::Value;

use crate::address;
use crate::catalog::Price;
use crate::duration::duration;
use crate::{Extra, Format, OutputFormat, RequestedReasoning};

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
    /// `format`: `chat`, `responses`, `messages`, `gemini` or `converse`.
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
    /// `total`: for one try, from connecting to the last byte. Unless said, without limit.
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
    /// Claims and reads the keys of a model. Other keys of the mapping are left to the caller, which
    /// finishes the section.
    pub fn read(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> Self {
        let provider = section.text("provider", problems).map(str::to_owned);
        let model = section.text("model", problems).map(str::to_owned);
        let fallbacks = section.texts("fallbacks", problems);
        Self {
            provider,
            model,
            fallbacks: fallbacks.map(|names| names.into_iter().map(str::to_owned).collect()),
            ..Self::read_provider(section, problems)
        }
    }

    /// Claims and reads the keys that a provider may have: all but `provider`, `model` and `fallbacks`.
    pub(crate) fn read_provider(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> Self {
        Self {
            provider: None,
            model: None,
            base_url: checked(section, "base_url", problems, |text| {
                address::parse(text).map(|_| ())
            }),
            token_key: checked(section, "token_key", problems, |text| {
                // The text is not shown, because it may be the key itself.
                is_variable(text)
                    .then_some(())
                    .ok_or_else(|| "is not the name of an environment variable; write the key into one, and its name here".to_owned())
            }),
            key_header: checked(section, "key_header", problems, |text| {
                HeaderName::try_from(text)
                    .map(|_| ())
                    .map_err(|_| format!("is `{text}`, which is not the name of a header"))
            }),
            headers: read_headers(section, problems),
            format: Format::read(section, problems),
            temperature: number(section, "temperature", 0.0, 10.0, problems),
            top_p: number(section, "top_p", 0.0, 1.0, problems),
            max_tokens: section.integer("max_tokens", 1..=u64::MAX, problems),
            stop: section
                .texts("stop", problems)
                .map(|texts| texts.into_iter().map(str::to_owned).collect()),
            reasoning: read_reasoning(section, problems),
            parallel_tool_calls: section.boolean("parallel_tool_calls", problems),
            structured_output: read_output(section, problems),
            provider_opts: section
                .map("provider_opts", problems)
                .unwrap_or_default()
                .iter()
                .map(|entry| (entry.key.clone(), entry.value.to_value()))
                .collect(),
            cost: read_cost(section, problems),
            prices: section.text("prices", problems).map(str::to_owned),
            context: section.integer("context", 1..=u64::MAX, problems),
            timeouts: read_timeouts(section, problems),
            retries: section
                .integer("retries", 0..=10, problems)
                .and_then(|retries| u32::try_from(retries).ok()),
            fallbacks: None,
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
        let mut beneath = match other_provider {
            true => Self {
                model: beneath.model.clone(),
                ..beneath.for_any_model()
            },
            false => beneath.clone(),
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

/// Claims `key`: a text that `check` validates. In the problem, the error of `check` follows the key's
/// name.
fn checked(
    section: &mut Section<'_>,
    key: &'static str,
    problems: &mut Vec<Problem>,
    check: impl FnOnce(&str) -> Result<(), String>,
) -> Option<String> {
    let text = section.text(key, problems)?.trim();
    let Err(wrong) = check(text) else {
        return Some(text.to_owned());
    };
    let (what, help) = wrong.split_once("; ").unwrap_or((&wrong, "write another"));
    let mut problem = Problem::new("bad-value", format!("`{key}` {what}")).help(help);
    if let Some(node) = section.node(key) {
        problem = problem.at(&node.place);
    }
    problems.push(problem);
    None
}

fn is_variable(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn number(
    section: &mut Section<'_>,
    key: &'static str,
    least: f64,
    most: f64,
    problems: &mut Vec<Problem>,
) -> Option<f64> {
    let number = section.number(key, problems)?;
    if (least..=most).contains(&number) {
        return Some(number);
    }
    let mut problem = Problem::new(
        "out-of-range",
        format!("`{key}` must be from {least} to {most}, but it is {number}"),
    )
    .help("write a number within these bounds");
    if let Some(node) = section.node(key) {
        problem = problem.at(&node.place);
    }
    problems.push(problem);
    None
}

fn read_headers(
    section: &mut Section<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<(String, Secret<String>)> {
    section
        .map("headers", problems)
        .unwrap_or_default()
        .iter()
        .filter_map(|entry| match read_header(entry) {
            Ok(header) => Some(header),
            Err(problem) => {
                problems.push(problem);
                None
            }
        })
        .collect()
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

fn read_reasoning(
    section: &mut Section<'_>,
    problems: &mut Vec<Problem>,
) -> Option<RequestedReasoning> {
    let effort = section.text("reasoning_effort", problems);
    let budget = section.present("thinking_budget");
    match (effort, budget) {
        (Some(effort), None) => Some(RequestedReasoning::Effort(effort.to_owned())),
        (None, Some(budget)) => match budget.as_text() {
            // Other runtimes write an effort in this place.
            Some(effort) => Some(RequestedReasoning::Effort(effort.to_owned())),
            None => section
                .integer("thinking_budget", 1..=u64::MAX, problems)
                .map(RequestedReasoning::Budget),
        },
        (Some(_), Some(budget)) => {
            let what = "`reasoning_effort` and `thinking_budget` say the same thing";
            problems.push(
                Problem::new("bad-value", what)
                    .at(&budget.place)
                    .help("keep one of them"),
            );
            None
        }
        (None, None) => None,
    }
}

fn read_output(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> Option<OutputFormat> {
    let mut output = section.section("structured_output", "`structured_output`", problems)?;
    let name = output.text("name", problems).unwrap_or("answer").to_owned();
    let strict = output.boolean("strict", problems).unwrap_or(true);
    let schema = output.required("schema", problems);
    let format = schema.and_then(|schema| match schema.to_value() {
        schema @ Value::Object(_) => Some(OutputFormat {
            name,
            schema,
            strict,
        }),
        _ => {
            problems.push(schema.wrong_type("`schema`", "a mapping"));
            None
        }
    });
    output.finish(problems);
    format
}

fn read_cost(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> Option<Price> {
    let mut cost = section.section("cost", "`cost`", problems)?;
    let before = problems.len();
    let price = Price::read(&mut cost, problems);
    if price.is_none() && problems.len() == before {
        problems.push(
            Problem::new("missing-key", "`cost` needs `input` and `output`")
                .at(cost.place())
                .help("write both, in dollars per million tokens; 0 if it costs nothing"),
        );
    }
    cost.finish(problems);
    price
}

fn read_timeouts(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> Timeouts {
    let Some(mut timeouts) = section.section("timeouts", "`timeouts`", problems) else {
        return Timeouts::default();
    };
    let read = Timeouts {
        connect: duration(&mut timeouts, "connect", problems),
        first_byte: duration(&mut timeouts, "first_byte", problems),
        idle: duration(&mut timeouts, "idle", problems),
        total: duration(&mut timeouts, "total", problems),
    };
    timeouts.finish(problems);
    read
}
