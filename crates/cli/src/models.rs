//! Models that a file and the environment configure, with prices and limits.

mod announced_pauses;

use std::path::PathBuf;
use std::sync::Arc;

use announced_pauses::AnnouncedPauses;
use cachalot_core::{Problem, SecretSet};
use cachalot_model::{
    Catalog, ErrorKind, ModelConfiguration, ModelDependencies, ModelSettings, Models,
};
use cachalot_storage::HttpOptions;
use cachalot_workflow::actions::RequestedEffort;

use crate::command_error::{CommandError, Result, Sources};
use crate::wiring::{ProcessEnvironment, Warn};

/// Creates the models of a file, and registers their keys as secrets in `secret_set`. `warn` shows the user which rate
/// limits are waited for.
pub(crate) fn models(
    process_environment: &ProcessEnvironment,
    configured: ModelConfiguration,
    secret_set: &Arc<SecretSet>,
    warn: Warn,
) -> Result<Models> {
    let models = Models::new(
        ModelDependencies {
            environment: process_environment.environment.clone(),
            clock: Arc::clone(&process_environment.clock),
            http: HttpOptions {
                environment: process_environment.environment.clone(),
                ..HttpOptions::default()
            },
            catalog: catalog(process_environment)?,
        },
        configured,
    )
    .with_secrets(Arc::clone(secret_set))
    .with_pauses(Arc::new(AnnouncedPauses::new(
        Arc::clone(&process_environment.clock),
        warn,
    )));
    Ok(match secret_set.key() {
        Some(key) => models.with_digest_key(key.clone()),
        None => models,
    })
}

/// Creates the models of a file for its checks. No request is sent, so the key for the digests of headers has no effect.
pub(crate) fn models_to_check(
    process_environment: &ProcessEnvironment,
    configured: ModelConfiguration,
) -> Result<Models> {
    let no_secrets = Arc::new(SecretSet::empty());
    models(
        process_environment,
        configured,
        &no_secrets,
        Arc::new(|_| {}),
    )
}

/// Returns the problems of `models:`, of `settings.llm` and of the calls that set a reasoning effort: formats
/// and reasoning efforts that a model refuses, and parameters that are not sent to it.
///
/// # Errors
/// The user's own catalog cannot be read.
pub(crate) fn refusals(
    configured: &ModelConfiguration,
    efforts: &[RequestedEffort],
    process_environment: &ProcessEnvironment,
) -> Result<Vec<Problem>> {
    let models = models_to_check(process_environment, configured.clone())?;
    let none = ModelSettings::default();
    let default = configured.defaults.model.as_ref();
    let of_default = default
        .and_then(|_| models.refusal(None, &none))
        .map(|error| ("settings.llm".to_owned(), error));
    let named = configured.models.iter().filter_map(|(name, _)| {
        let error = models.refusal(Some(name), &none)?;
        Some((format!("models.{name}"), error))
    });
    let problem = |(key, error)| Problem::new("bad-value", format!("`{key}`: {error}"));
    let of_calls = efforts.iter().filter_map(|effort| {
        let error = effort.refusal(&models)?;
        Some(Problem::new("bad-value", error.to_string()).at(&effort.place))
    });
    let refused = named.chain(of_default).map(problem);
    let unsent = |key: String, name| {
        let unsent = models.unsent(name, &none);
        let warnings = unsent
            .iter()
            .map(|setting| setting.warning(&format!("`{key}`")));
        warnings.collect::<Vec<_>>()
    };
    let names = configured.models.iter().map(|(name, _)| name);
    let of_named = names.flat_map(|name| unsent(format!("models.{name}"), Some(name.as_str())));
    let of_default = default.map(|_| unsent("settings.llm".to_owned(), None));
    let warnings = of_named.chain(of_default.into_iter().flatten());
    Ok(refused.chain(of_calls).chain(warnings).collect())
}

/// Returns the help for a missing API key or an unreachable server, for the end of a message.
pub(crate) fn remedy(error: &cachalot_model::Error) -> Option<String> {
    match error.kind {
        ErrorKind::Unauthorized if error.status.is_none() => {
            Some(simulator_hint(error.provider.as_deref()))
        }
        ErrorKind::Unreachable => missing_server(&error.message),
        _ => None,
    }
}

/// Returns the help for a message that reports an unreachable model on this machine.
pub(crate) fn missing_server(message: &str) -> Option<String> {
    let paths = ["/chat/completions", "/responses", "/v1/messages"];
    if !paths.iter().any(|path| message.contains(path)) {
        return None;
    }
    let port = port_on_this_machine(&message[message.find("http://")?..])?;
    Some(format!(
        "is the server running? `cachalot simulate --port {port}` stands in for one"
    ))
}

/// Returns the help for using the simulator instead of a provider that needs a key.
pub(crate) fn simulator_hint(provider: Option<&str>) -> String {
    const SIMULATOR: &str = "http://127.0.0.1:4010";
    let there = match provider {
        Some("openai") => format!("`OPENAI_BASE_URL={SIMULATOR}/v1`"),
        Some("anthropic") => format!("`ANTHROPIC_BASE_URL={SIMULATOR}`"),
        _ => format!("its `base_url: {SIMULATOR}/v1`"),
    };
    format!(
        "to try it without a key, run `cachalot simulate` in another terminal and set the provider's address: {there}"
    )
}

/// Returns the port if the address is on this machine.
fn port_on_this_machine(url: &str) -> Option<u16> {
    let rest = url.strip_prefix("http://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (host, port) = authority.rsplit_once(':')?;
    let here = ["127.0.0.1", "localhost", "[::1]"].contains(&host);
    here.then(|| port.parse().ok()).flatten()
}

/// Returns prices and limits: the built-in catalog, overridden by the user's own file in `CACHALOT_MODELS` or
/// `cachalot/models.yaml` in the user's configuration directory.
pub(crate) fn catalog(process_environment: &ProcessEnvironment) -> Result<Catalog> {
    let built_in = Catalog::built_in();
    let Some(path) = user_catalog_file(process_environment) else {
        return Ok(built_in);
    };
    built_in.with_file(&path).map_err(|problems| {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        CommandError::Usage {
            problems,
            sources: Sources::from([(name, text)]),
        }
    })
}

/// Returns the file that `CACHALOT_MODELS` names, or the default file if it exists.
fn user_catalog_file(process_environment: &ProcessEnvironment) -> Option<PathBuf> {
    let named = process_environment.environment.get("CACHALOT_MODELS");
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return Some(process_environment.directory.join(named));
    }
    let usual = process_environment.configuration()?.join("models.yaml");
    Some(usual).filter(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::port_on_this_machine;

    #[test]
    fn port_on_this_machine_recognizes_loopback_urls() {
        assert_eq!(port_on_this_machine("http://127.0.0.1:4010/v1"), Some(4010));
        assert_eq!(port_on_this_machine("http://localhost:11434"), Some(11434));
        assert_eq!(port_on_this_machine("http://[::1]:80/v1?x=1"), Some(80));
        for elsewhere in [
            "https://127.0.0.1:1/",
            "http://example.org:80",
            "http://127.0.0.1/v1",
        ] {
            assert_eq!(port_on_this_machine(elsewhere), None, "{elsewhere}");
        }
    }
}
