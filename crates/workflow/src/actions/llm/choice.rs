//! Model and parameters of a call: its arguments take precedence over the configuration.

use std::ops::RangeInclusive;
use std::time::Duration;

use cachalot_model::{
    Error, Model, ModelSettings, Models, OutputFormat, RequestedReasoning, Timeouts, ToolChoice,
};
use reqwest::Url;
use serde_json::{Map, Value};

use super::super::arguments::CheckedArguments;
use super::super::model_error::failure;
use crate::{Failure, Runtime, destination, origin};

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

/// Returns the model of this name. A separate provider is equivalent to a `provider/` prefix: the address
/// that `settings.llm` sets for its own provider does not apply to another one.
fn choose(models: &Models, name: Option<&str>, settings: ModelSettings) -> Result<Model, Error> {
    if let (Some(provider), Some(name), None) = (&settings.provider, name, &settings.base_url)
        && models.configured().model(name).is_none()
    {
        let bare = ModelSettings {
            provider: None,
            ..settings.clone()
        };
        let named = models.choose(Some(&format!("{provider}/{name}")), &bare);
        if let Ok(model) = named
            && model.provider() == provider
        {
            return Ok(model);
        }
    }
    models.choose(name, &settings)
}

/// The allowed range of `max_retries`.
pub(super) const RETRIES: RangeInclusive<u64> = 0..=10;

/// Reads the model settings in the arguments.
fn settings(given: &CheckedArguments<'_>, runtime: &Runtime) -> Result<ModelSettings, Failure> {
    let text = |name| {
        let text = given.text(name)?.filter(|text| !text.is_empty());
        Ok::<_, Failure>(text.map(ToOwned::to_owned))
    };
    if let Some(base_url) = given.text("base_url")?
        && let Ok(url) = Url::parse(base_url.trim())
    {
        destination::check(given.action(), runtime, &url, None)?;
    }
    if origin::is_chosen_by_model() && given.value_of("token_key").is_some_and(|it| !it.is_null()) {
        return Err(given.wrong(
            "token_key",
            "cannot be chosen by a model: it would send any variable to a provider",
        ));
    }
    let number = |name: &str| given.value_of(name).and_then(Value::as_f64);
    let max_tokens = match given.value_of("max_tokens") {
        None => None,
        Some(_) => Some(given.count("max_tokens", 1, 1..=u64::MAX)?),
    };
    let total = match given.value_of("timeout") {
        None => None,
        Some(_) => Some(given.seconds("timeout", Duration::ZERO)?),
    };
    let retries = match given.value_of("max_retries") {
        None => None,
        Some(_) => u32::try_from(given.count("max_retries", 0, RETRIES)?).ok(),
    };
    Ok(ModelSettings {
        timeouts: Timeouts {
            total,
            ..Timeouts::default()
        },
        retries,
        provider: text("provider")?,
        base_url: text("base_url")?,
        token_key: text("token_key")?,
        temperature: number("temperature"),
        top_p: number("top_p"),
        max_tokens,
        stop: stop(given)?,
        reasoning: text("reasoning_effort")?.map(RequestedReasoning::Effort),
        structured_output: response_format(given)?,
        provider_opts: given.object("provider_opts")?.cloned().unwrap_or_default(),
        fallbacks: fallbacks(given)?,
        ..ModelSettings::default()
    })
}

fn stop(given: &CheckedArguments<'_>) -> Result<Option<Vec<String>>, Failure> {
    match given.value_of("stop") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(vec![text.clone()])),
        Some(Value::Array(texts)) => texts
            .iter()
            .map(|text| text.as_str().map(ToOwned::to_owned))
            .collect::<Option<Vec<_>>>()
            .map(Some)
            .ok_or_else(|| given.wrong("stop", "holds something that is no text")),
        Some(_) => Err(given.wrong("stop", "is neither text nor a list of texts")),
    }
}

fn fallbacks(given: &CheckedArguments<'_>) -> Result<Option<Vec<String>>, Failure> {
    let Some(names) = given.list("fallbacks")? else {
        return Ok(None);
    };
    names
        .iter()
        .map(|name| name.as_str().map(ToOwned::to_owned))
        .collect::<Option<Vec<_>>>()
        .map(Some)
        .ok_or_else(|| given.wrong("fallbacks", "holds something that is no name of a model"))
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
            .and_then(|inner| Some(of(inner, inner.get("schema").filter(|it| it.is_object())?)))
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
