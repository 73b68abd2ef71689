//! Model and parameters of a call: its arguments take precedence over the configuration.

use cachalot_model::{
    Error, Model, ModelSettings, Models, OutputFormat, RequestedReasoning, Timeouts, ToolChoice,
};
use reqwest::Url;
use serde_json::{Map, Value};

use super::super::arguments::CheckedArguments;
use super::super::model_error::failure;
use crate::{Arguments, Failure, Runtime, destination, origin};

/// Returns the model that a call uses.
pub(super) fn model(given: &CheckedArguments<'_>, runtime: &Runtime) -> Result<Model, Failure> {
    let settings = settings(given, runtime)?;
    let models = &runtime.models;
    let name = given.text("model")?.or_else(|| default(models));
    choose(models, name, settings).map_err(|error| failure(given, &error))
}

/// Returns the model that `settings.llm` names, if it is one of `models`.
pub(in crate::actions) fn default(models: &Models) -> Option<&str> {
    let configured = models.configured();
    let defaults = &configured.defaults;
    let name = defaults.model.as_deref()?;
    (defaults.provider.is_none() && configured.model(name).is_some()).then_some(name)
}

/// Returns the arguments of the same question to the model `name`, without the arguments in `left_out`.
pub(super) fn with_model(arguments: &Arguments, left_out: &[&str], name: &str) -> Arguments {
    let kept = arguments.iter();
    let kept = kept.filter(|(key, _)| !left_out.contains(&key.as_str()));
    kept.map(|(key, value)| (key.clone(), value.clone()))
        .chain([("model".to_owned(), Value::from(name))])
        .collect()
}

/// Returns the model of this name. A separate provider is equivalent to a `provider/` prefix: the address
/// that `settings.llm` sets for its own provider does not apply to another one.
fn choose(models: &Models, name: Option<&str>, settings: ModelSettings) -> Result<Model, Error> {
    if let Some((prefixed, bare)) = with_prefix(models, name, &settings)
        && let Ok(model) = models.choose(Some(&prefixed), &bare)
        && settings.provider.as_deref() == Some(model.provider())
    {
        return Ok(model);
    }
    models.choose(name, &settings)
}

/// Returns the name with its provider as a prefix, and the settings without a provider; `None` if the file
/// configures a model of this name, or the settings have an address.
pub(in crate::actions) fn with_prefix(
    models: &Models,
    name: Option<&str>,
    settings: &ModelSettings,
) -> Option<(String, ModelSettings)> {
    let (provider, name) = (settings.provider.as_ref()?, name?);
    let is_plain = settings.base_url.is_none() && models.configured().model(name).is_none();
    is_plain.then(|| {
        let bare = ModelSettings {
            provider: None,
            ..settings.clone()
        };
        (format!("{provider}/{name}"), bare)
    })
}

/// Reads the model settings in the arguments.
fn settings(given: &CheckedArguments<'_>, runtime: &Runtime) -> Result<ModelSettings, Failure> {
    let text = |name| Ok::<_, Failure>(given.non_empty_text(name)?.map(str::to_owned));
    if let Some(base_url) = given.text("base_url")?
        && let Ok(url) = Url::parse(base_url.trim())
    {
        destination::check(given.action(), runtime, &url, None)?;
    }
    if origin::is_chosen_by_model()
        && given
            .value_of("token_key")
            .is_some_and(|value| !value.is_null())
    {
        let what = "cannot be chosen by a model: it would send any variable to a provider";
        return Err(given.wrong("token_key", what));
    }
    let number = |name: &str| given.value_of(name).and_then(Value::as_f64);
    let retries = given.count("max_retries")?;
    Ok(ModelSettings {
        timeouts: Timeouts {
            total: given.duration("timeout")?,
            ..Timeouts::default()
        },
        retries: retries.and_then(|count| u32::try_from(count).ok()),
        provider: text("provider")?,
        base_url: text("base_url")?,
        token_key: text("token_key")?,
        temperature: number("temperature"),
        top_p: number("top_p"),
        max_tokens: given.count("max_tokens")?,
        stop: stop(given)?,
        reasoning: text("reasoning_effort")?.map(RequestedReasoning::Effort),
        structured_output: response_format(given)?,
        provider_opts: given.object("provider_opts")?.cloned().unwrap_or_default(),
        fallbacks: given.texts("fallbacks", "holds something that is no name of a model")?,
        ..ModelSettings::default()
    })
}

fn stop(given: &CheckedArguments<'_>) -> Result<Option<Vec<String>>, Failure> {
    match given.value_of("stop") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(vec![text.clone()])),
        Some(Value::Array(_)) => given.texts("stop", "holds something that is no text"),
        Some(_) => Err(given.wrong("stop", "is neither text nor a list of texts")),
    }
}

/// Reads a JSON Schema, OpenAI's envelope around one, or OpenAI's JSON mode.
fn response_format(given: &CheckedArguments<'_>) -> Result<Option<OutputFormat>, Failure> {
    let Some(format) = given.object("response_format")? else {
        return Ok(None);
    };
    let of = |fields: &Map<String, Value>, schema: &Value| OutputFormat {
        name: fields
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or("answer")
            .to_owned(),
        strict: fields
            .get("strict")
            .and_then(Value::as_bool)
            .unwrap_or(true),
        schema: schema.clone(),
    };
    match format.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_schema") => format
            .get("json_schema")
            .and_then(Value::as_object)
            .and_then(|inner| {
                Some(of(
                    inner,
                    inner.get("schema").filter(|schema| schema.is_object())?,
                ))
            })
            .map(Some)
            .ok_or_else(|| given.wrong("response_format", "has no `json_schema.schema`")),
        Some("json_object") => Ok(Some(OutputFormat::json_object())),
        _ => Ok(Some(of(&Map::new(), &Value::Object(format.clone())))),
    }
}

/// Reads which tools the model may or must call.
pub(super) fn tool_choice(given: &CheckedArguments<'_>) -> Result<Option<ToolChoice>, Failure> {
    let Some(choice) = given
        .value_of("tool_choice")
        .filter(|value| !value.is_null())
    else {
        return Ok(None);
    };
    let named = |value: &Value| {
        let name = value
            .pointer("/function/name")
            .or_else(|| value.get("name"))?;
        name.as_str().map(ToOwned::to_owned)
    };
    match choice.as_str() {
        Some("auto") => Ok(Some(ToolChoice::Auto)),
        Some("none") => Ok(Some(ToolChoice::None)),
        Some("required" | "any") => Ok(Some(ToolChoice::Any)),
        Some(name) => Ok(Some(ToolChoice::Tool(name.to_owned()))),
        None => named(choice)
            .map(|name| Some(ToolChoice::Tool(name)))
            .ok_or_else(|| given.wrong("tool_choice", "names no tool")),
    }
}
