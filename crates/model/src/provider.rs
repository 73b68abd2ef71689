//! Which models there are, where they are, and how they are asked.
//!
//! A model is found by a name of `models:`, by `provider/model`, or by a bare name that tells its
//! provider. What the file says wins over what `providers:` says, and that over what comes with the
//! program; a call's own settings win over all.
//!
//! Where keys go: a key whose variable is only a provider's usual one (`OPENAI_API_KEY`) goes to the
//! provider's own address, or to the one that the provider's own variable (`OPENAI_BASE_URL`) names.
//! A file that says another `base_url` gets no key unless it names the variable with `token_key`. So
//! a file of somebody else cannot send the user's key away by naming an address alone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use cachalot_core::suggest::{did_you_mean, nearest};
use cachalot_core::{Clock, DigestKey, Seals};
use cachalot_storage::{HttpClient, HttpOptions};

use crate::catalog::{Capabilities, Catalog, Limits, Listed};
use crate::client::{Pauses, SystemPauses};
use crate::error::{Error, ErrorKind};
use crate::routing::RequestRates;
use crate::{Format, Marking, MediaLimits, Parameters, ReasoningWish};

mod accepted;
mod address;
pub(crate) mod cloud;
mod configured;
mod identity;
mod key;
mod known;
mod model;
mod server_tools;
mod settings;

pub use configured::Configured;
pub(crate) use key::Key;
#[cfg(test)]
pub(crate) use known::Known as KnownProviders;
pub use model::Model;
pub(crate) use model::{Resolved, TimeLimits};
pub(crate) use settings::read_format;
pub use settings::{ModelSettings, Timeouts};

use accepted::Asked;
use cloud::{Accounts, Cloud, Credentials};
use configured::sentence;
use known::{Known, Provider};

/// The provider whose model a bare name is.
pub(crate) fn owner(model: &str) -> Option<&'static str> {
    Known::built_in().owner(model)
}

/// The provider of a model that says where it is and not whose.
const CUSTOM: &str = "custom";

/// How many tokens an answer may have where nobody says, in the format that must say it, from a model
/// that is known to make so many.
const USUAL_MAX_TOKENS: u64 = 32_000;

/// What models need from outside. Passed in, so that every test is deterministic.
#[derive(Clone)]
pub struct Surroundings {
    /// Where keys and base URLs are read from.
    pub environment: BTreeMap<String, String>,
    /// The time of day, for servers that say until when to wait.
    pub clock: Arc<dyn Clock>,
    /// How the HTTP client behaves. Its time limits are not used: each model has its own. Redirects
    /// are never followed, since a key would go with them.
    pub http: HttpOptions,
    /// Prices and limits.
    pub catalog: Catalog,
}

impl fmt::Debug for Surroundings {
    /// Without the environment, which holds secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings")
            .field("clock", &self.clock)
            .field("http", &self.http)
            .finish_non_exhaustive()
    }
}

/// Everything that `models:` and `providers:` of an agent file, `settings.llm` and the environment
/// say. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Models {
    surroundings: Arc<Surroundings>,
    configured: Arc<Configured>,
    known: &'static Known,
    pauses: Arc<dyn Pauses>,
    /// What secrets are digested under; made by the first that needs it, if none was given.
    digests: Arc<OnceLock<DigestKey>>,
    /// Who knows the keys.
    seals: Arc<Seals>,
    clients: Arc<Mutex<Clients>>,
    rates: Arc<RequestRates>,
    accounts: Arc<Accounts>,
}

/// The HTTP clients by their limits: for a connection, and for silence.
type Clients = Vec<((Duration, Duration), HttpClient)>;

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Models")
            .field("surroundings", &self.surroundings)
            .field("configured", &self.configured)
            .finish_non_exhaustive()
    }
}

impl Models {
    /// Models as configured. Nothing is connected, and no key is looked for, before a model is used.
    #[must_use]
    pub fn new(surroundings: Surroundings, configured: Configured) -> Self {
        Self {
            surroundings: Arc::new(surroundings),
            configured: Arc::new(configured),
            known: Known::built_in(),
            pauses: Arc::new(SystemPauses),
            digests: Arc::default(),
            seals: Arc::default(),
            clients: Arc::default(),
            rates: Arc::default(),
            accounts: Arc::default(),
        }
    }

    /// The same models, which digest what is secret of their identity under `key`: see
    /// [`Model::identity`].
    #[must_use]
    pub fn digesting_under(mut self, key: DigestKey) -> Self {
        self.digests = Arc::new(OnceLock::from(key));
        self
    }

    /// The same models, whose keys `seals` know as secrets: at once those in the environment that any
    /// provider takes which comes with the program or is configured, so that nothing depends on which
    /// model is asked first; the others, which a call or a header names, before they are sent. What is
    /// too short or too plain for a key (`x`, `not-needed`) is none.
    #[must_use]
    pub fn teaching(mut self, seals: Arc<Seals>) -> Self {
        self.accounts = Arc::new(Accounts::with_seals(Arc::clone(&seals)));
        self.seals = seals;
        self.teach();
        self
    }

    fn teach(&self) {
        let variables = self.known.key_variables();
        for variable in variables.chain(self.configured.key_variables()) {
            if let Some(key) = self.surroundings.environment.get(variable) {
                key::teach(key, &self.seals);
            }
        }
    }

    /// The same models, which wait between tries as `pauses` says.
    #[must_use]
    pub fn pausing_with(mut self, pauses: Arc<dyn Pauses>) -> Self {
        self.pauses = pauses;
        self
    }

    /// Models in the same surroundings, as another file configures them.
    #[must_use]
    pub fn configured_as(&self, configured: Configured) -> Self {
        let models = Self {
            configured: Arc::new(configured),
            ..self.clone()
        };
        models.teach();
        models
    }

    /// What was configured.
    #[must_use]
    pub fn configured(&self) -> &Configured {
        &self.configured
    }

    /// Prices and limits.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.surroundings.catalog
    }

    /// The model of this name: a key of `models:`, `provider/model`, or a bare name that tells its
    /// provider (`gpt-4o`, `claude-sonnet-5`).
    ///
    /// Keys are not looked for yet: answers from a cache need none. See [`Model::ready`].
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`]: there is no such model or provider, or nobody says where it is.
    pub fn find(&self, name: &str) -> Result<Model, Error> {
        self.choose(Some(name), &ModelSettings::default())
    }

    /// The model of this name, or without a name that of the defaults (`settings.llm`), with what a
    /// call says of its own over everything.
    ///
    /// # Errors
    /// As of [`Models::find`], of its fallbacks too; or there is neither a name nor a default.
    pub fn choose(&self, name: Option<&str>, call: &ModelSettings) -> Result<Model, Error> {
        let settings = self.settings(name, call);
        let names = settings.fallbacks.clone().unwrap_or_default();
        let model = self.resolve(settings)?;
        // A fallback's own fallbacks are not asked.
        let of_any = call.for_any_model();
        let mut fallbacks = Vec::with_capacity(names.len());
        for name in names {
            let fallback = self
                .resolve(self.settings(Some(&name), &of_any))
                .map_err(|error| Error {
                    message: format!("the fallback `{name}`: {}", error.message),
                    ..error
                })?;
            if !fallback.is_same_as(&model) {
                fallbacks.push((name, fallback));
            }
        }
        Ok(model.with_fallbacks(fallbacks))
    }

    /// Returns why a model refuses what is configured for it, or what `call` says over that: its format,
    /// or its reasoning effort. The model is named as for [`Models::choose`]. A model that cannot be found
    /// refuses nothing.
    #[must_use]
    pub fn refusal(&self, name: Option<&str>, call: &ModelSettings) -> Option<Error> {
        let found = self.look_up(self.settings(name, call)).ok()?;
        let asked = found.asked();
        let format = asked.format();
        format
            .and_then(|format| asked.check_reasoning(format))
            .err()
    }

    /// Everything that is said of the model of this name.
    fn settings(&self, name: Option<&str>, call: &ModelSettings) -> ModelSettings {
        let defaults = &self.configured.defaults;
        let named = call.model.as_deref().filter(|_| name.is_none());
        let (settings, common) = match name.or(named) {
            Some(name) => match self.configured.model(name) {
                Some(settings) => (settings.clone(), defaults.for_any_model()),
                None => (
                    ModelSettings {
                        model: Some(name.to_owned()),
                        ..ModelSettings::default()
                    },
                    self.defaults_of(name),
                ),
            },
            None => (defaults.clone(), ModelSettings::default()),
        };
        let call = ModelSettings {
            // It has said what it has to say: under this name, everything else is configured.
            model: None,
            ..call.clone()
        };
        call.over(&settings).over(&common)
    }

    /// What the defaults say of a model that `models:` does not know: where it is as well, unless its
    /// name tells of another provider than theirs.
    fn defaults_of(&self, name: &str) -> ModelSettings {
        let defaults = &self.configured.defaults;
        let named = name.split_once('/').map(|(provider, _)| provider);
        let named = named.filter(|provider| {
            self.configured.provider(provider).is_some() || self.known.provider(provider).is_some()
        });
        let theirs = defaults.provider.as_deref();
        let elsewhere = match (named, theirs) {
            (Some(named), theirs) => theirs != Some(named),
            // A gateway takes models by their own names.
            (None, None) => false,
            (None, Some(theirs)) => self.known.owner(name).is_some_and(|owner| owner != theirs),
        };
        match elsewhere {
            true => defaults.for_any_model(),
            false => ModelSettings {
                model: None,
                ..defaults.clone()
            },
        }
    }

    fn look_up(&self, settings: ModelSettings) -> Result<Found, Error> {
        let (name, model) = self.provider_and_model(&settings)?;
        let configured = self.configured.provider(&name);
        let known = self.known.provider(&name);
        if configured.is_none() && known.is_none() && name != CUSTOM {
            return Err(self.no_provider(&name));
        }
        let known = known.cloned().unwrap_or_default();
        let settings = match configured {
            Some(provider) => settings.over(provider),
            None => settings,
        };
        let catalog_provider = settings.prices.clone().unwrap_or_else(|| name.clone());
        let catalog = &self.surroundings.catalog;
        let listed_name = match known.cloud {
            // An inference profile has the prices of the model that it is named after.
            Some(_) => model.rsplit('/').next().unwrap_or(&model),
            None => &model,
        };
        let listed = catalog.find(&catalog_provider, listed_name);
        let mut listed = listed.cloned().unwrap_or_default();
        // A cloud platform sets its own prices; the model is the same as at its maker.
        let is_converse = settings.format.or(known.format) == Some(Format::Converse);
        let original =
            Cloud::original_name(&model).filter(|_| known.cloud.is_some() || is_converse);
        if let Some(original) = original.and_then(|name| catalog.find("anthropic", name)) {
            listed.limits = listed.limits.or(original.limits);
            let capabilities = Capabilities {
                endpoints: None,
                ..original.capabilities.clone()
            };
            listed.capabilities = listed.capabilities.or(capabilities);
        }
        Ok(Found {
            listed,
            name,
            model,
            known,
            settings,
            catalog_provider,
        })
    }

    fn resolve(&self, settings: ModelSettings) -> Result<Model, Error> {
        let found = self.look_up(settings)?;
        let asked = found.asked();
        let format = asked.format()?;
        asked.check_reasoning(format)?;
        let refuses_tools_in_chat = asked.refuses_tools_in_chat();
        let keyed_format = found.settings.format.unwrap_or(asked.usual);
        let Found {
            name,
            model,
            known,
            settings,
            catalog_provider,
            listed,
        } = found;
        let place = self.place(&name, &settings, &known)?;
        let key = Key::find(&settings, &known, &place, &self.surroundings.environment);
        let limits = Limits {
            context: settings.context,
            ..Limits::default()
        }
        .or(listed.limits);
        let time = TimeLimits::of(&settings.timeouts);
        let (key, credentials) = match known.cloud {
            Some(cloud) => {
                let environment = &self.surroundings.environment;
                Credentials::choose(cloud, key, &settings, &place, environment, &self.accounts)
            }
            None => (key, None),
        };
        let url = |streams| match (known.cloud, format) {
            (Some(cloud), Format::Messages) => cloud.endpoint(&place.url, &model, streams),
            (_, Format::Gemini) => address::gemini(&place.url, &model, streams),
            (_, Format::Converse) => address::converse(&place.url, &model, streams),
            _ => address::endpoint(&place.url, format, crate::wire::of(format).path()),
        };
        let resolved = Resolved {
            url: url(false),
            stream_url: url(true),
            cloud: known.cloud,
            credentials,
            marking: Marking::find(&catalog_provider, &model, format),
            media: MediaLimits::find(&catalog_provider, format),
            keyed_format,
            is_format_fixed: settings.format.is_some(),
            catalog_provider,
            capabilities: listed.capabilities,
            refuses_tools_in_chat,
            shown: cachalot_storage::masked(place.url.as_str()).into_owned(),
            is_direct: place.is_own || address::is_loopback(&place.url),
            base: place.url,
            key_header: key::header(&settings, &known, format),
            parameters: parameters(&settings, model, format, &limits),
            price: settings.cost.clone().or(listed.price),
            headers: identity::headers(&settings, format, known.cloud)?,
            retries: settings.retries.unwrap_or(Resolved::RETRIES),
            repeats_timeouts: settings.retries.is_some(),
            http: self.client(time)?,
            clock: Arc::clone(&self.surroundings.clock),
            pauses: Arc::clone(&self.pauses),
            rates: Arc::clone(&self.rates),
            digests: Arc::clone(&self.digests),
            provider: name,
            key,
            format,
            limits,
            time,
            fallbacks: Vec::new(),
        };
        resolved.prepare_digests()?;
        resolved.teach(&self.seals);
        Ok(Model::of(resolved))
    }

    /// Whose model it is, and its name there.
    fn provider_and_model(&self, settings: &ModelSettings) -> Result<(String, String), Error> {
        let Some(model) = settings.model.as_deref().filter(|name| !name.is_empty()) else {
            return Err(configuration(
                "no model is named: write `model: …` in `settings.llm`, or name one of `models:`",
            ));
        };
        let owned = |provider: &str, model: &str| (provider.to_owned(), model.to_owned());
        if let Some(provider) = &settings.provider {
            return Ok(owned(provider, model));
        }
        let is_provider = |name: &str| {
            self.configured.provider(name).is_some() || self.known.provider(name).is_some()
        };
        if let Some((provider, rest)) = model.split_once('/')
            && is_provider(provider)
            && !rest.is_empty()
        {
            return Ok(owned(provider, rest));
        }
        if let Some(provider) = self.known.owner(model) {
            return Ok(owned(provider, model));
        }
        if settings.base_url.is_some() {
            return Ok(owned(CUSTOM, model));
        }
        Err(self.no_model(model))
    }

    /// Where the provider is.
    fn place(
        &self,
        name: &str,
        settings: &ModelSettings,
        known: &Provider,
    ) -> Result<Place, Error> {
        let environment = &self.surroundings.environment;
        let invalid = |what: &str, wrong: String| configuration(format!("{name}: {what} {wrong}"));
        let complete = |url| match known.cloud {
            Some(cloud) => cloud.complete(url, environment),
            None => Ok(url),
        };
        let variable = known
            .base_url_variables
            .iter()
            .find_map(|variable| {
                let value = environment.get(variable)?;
                (!value.trim().is_empty()).then_some((variable, value))
            })
            .map(|(variable, value)| {
                let url = address::from_variable(known, value);
                url.and_then(complete).map_err(|wrong| {
                    invalid(&format!("the environment variable {variable}"), wrong)
                })
            })
            .transpose();
        let usual = || {
            let of_cloud = known.cloud.map(|cloud| cloud.base_url(environment));
            of_cloud
                .as_deref()
                .or(known.base_url.as_deref())
                .map(|url| {
                    let url = address::parse(url).and_then(complete);
                    url.map_err(|wrong| invalid("its base URL", wrong))
                })
                .transpose()
        };
        if let Some(text) = &settings.base_url {
            let url = address::parse(text).and_then(complete);
            let url = url.map_err(|wrong| invalid("`base_url`", wrong))?;
            // A variable that makes no sense is no reason to fail: the file does without it.
            let known_too = |url: &String| address::parse(url).ok();
            let also = known.also_base_urls.iter().map(known_too);
            let own: Vec<Option<url::Url>> =
                [variable.unwrap_or_default(), usual().unwrap_or_default()]
                    .into_iter()
                    .chain(also)
                    .collect();
            let is_own = own.iter().flatten().any(|own| address::same(own, &url));
            return Ok(Place { url, is_own });
        }
        match variable?.map_or_else(usual, |url| Ok(Some(url)))? {
            Some(url) => Ok(Place { url, is_own: true }),
            None => {
                let variables = known.base_url_variables.join(" or ");
                Err(configuration(format!(
                    "{name}: nobody says where it is: write `base_url: …`{}",
                    match variables.is_empty() {
                        true => String::new(),
                        false => format!(", or set the environment variable {variables}"),
                    }
                )))
            }
        }
    }

    /// The client for these limits. Those of the storage client are out of the way of the model's.
    fn client(&self, time: TimeLimits) -> Result<HttpClient, Error> {
        let limits = (
            time.connect,
            time.first_byte.max(time.idle) + Duration::from_secs(60),
        );
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = clients.iter().find(|(known, _)| *known == limits) {
            return Ok(client.clone());
        }
        let client = HttpClient::new(HttpOptions {
            connect_timeout: limits.0,
            idle_timeout: limits.1,
            redirects: 0,
            ..self.surroundings.http.clone()
        })
        .map_err(|error| configuration(error.to_string()))?;
        clients.push((limits, client.clone()));
        Ok(client)
    }

    fn no_provider(&self, name: &str) -> Error {
        let names = self.configured.provider_names(self.known);
        configuration(format!(
            "there is no provider `{name}`: {} Or say where it is, under `providers:`",
            sentence(&did_you_mean(name, &names))
        ))
    }

    fn no_model(&self, name: &str) -> Error {
        let providers = self.configured.provider_names(self.known);
        if let Some((provider, rest)) = name.split_once('/') {
            let remedy = match nearest(provider, providers.iter().copied()) {
                Some(near) => format!("did you mean `{near}/{rest}`?"),
                None => format!(
                    "`{provider}` is no provider. If that is a part of the model's name, put the provider before it: `ollama/{name}`, `openrouter/{name}`"
                ),
            };
            return configuration(format!("there is no model `{name}`: {remedy}"));
        }
        let own = self.configured.models.iter().map(|(name, _)| name.as_str());
        let listed = providers
            .iter()
            .flat_map(|provider| self.surroundings.catalog.models(provider));
        let remedy = match nearest(name, own.chain(listed)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                "add it to `models:`, or name its provider: `openai/…`, `anthropic/…`, `ollama/…`"
                    .to_owned()
            }
        };
        configuration(format!("there is no model `{name}`: {remedy}"))
    }
}

/// A model as it is configured, with what is known of it.
struct Found {
    /// The provider's name.
    name: String,
    model: String,
    known: Provider,
    settings: ModelSettings,
    /// The provider under which the model is in the catalog.
    catalog_provider: String,
    listed: Listed,
}

impl Found {
    fn asked(&self) -> Asked<'_> {
        Asked {
            provider: &self.name,
            model: &self.model,
            settings: &self.settings,
            usual: self.known.format.unwrap_or(Format::Chat),
            capabilities: &self.listed.capabilities,
        }
    }
}

/// Where a provider is.
struct Place {
    url: url::Url,
    /// Whether the provider itself, or its own environment variable, is meant.
    is_own: bool,
}

fn configuration(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Configuration, message)
}

fn parameters(
    settings: &ModelSettings,
    model: String,
    format: Format,
    limits: &Limits,
) -> Parameters {
    // This format must say how much, and where nobody does, very little is assumed of a model that
    // nobody knows. What is thought counts, too.
    let needed = limits
        .max_output
        .filter(|_| format == Format::Messages)
        .map(|most| match settings.reasoning {
            Some(ReasoningWish::Budget(budget)) => {
                budget.saturating_add(USUAL_MAX_TOKENS).min(most)
            }
            _ => USUAL_MAX_TOKENS.min(most),
        });
    Parameters {
        model,
        max_output_tokens: settings.max_tokens.or(needed),
        temperature: settings.temperature,
        top_p: settings.top_p,
        stop: settings.stop.clone().unwrap_or_default(),
        parallel_tool_calls: settings.parallel_tool_calls,
        reasoning: settings.reasoning.clone(),
        output: settings.structured_output.clone(),
        extra: settings.provider_opts.clone(),
        ..Parameters::default()
    }
}
