//! Finds models and resolves their provider, address, key and settings.
//!
//! A model is found by a key of `models:`, by `provider/model`, or by a bare name that implies its
//! provider. Settings in order of precedence: those of the call, those of the model in the file, those of
//! `providers:`, the built-in ones.
//!
//! Keys: a key from a provider's usual variable (`OPENAI_API_KEY`) is sent only to the provider's own
//! address or to the address in the provider's own variable (`OPENAI_BASE_URL`). A file with another
//! `base_url` gets no key unless it names the variable with `token_key`. An untrusted file can therefore
//! not obtain the user's key by setting an address alone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cachalot_core::suggest::{did_you_mean, nearest};
use cachalot_core::{Clock, DigestKey, Secret, SecretSet};
use cachalot_storage::{HttpClient, HttpOptions};
use parking_lot::Mutex;

use crate::address::AddressError;
use crate::catalog::{Catalog, ModelLimits};
use crate::cloud::{self, Cloud};
use crate::error::{Error, ErrorKind};
use crate::provider_table::{BuiltInProvider, ProviderTable};
use crate::routing::RequestRates;
use crate::wire::{FormatWire, for_format};
use crate::{Capabilities, Format, MarkerRules, MediaLimits, address};

mod accepted;
mod client;
mod configuration;
mod credentials;
mod docker_options;
mod header;
mod key;
mod model;
mod model_lookup;
mod resolved_model;
mod retry_pause;
mod server_tools;
mod settings;

pub use accepted::UnsentParameter;
pub use configuration::ModelConfiguration;
pub use model::Model;
pub use retry_pause::{RateLimitPause, RetryPauses, SystemRetryPauses};
pub use settings::{MODEL_KEYS, ModelSettings, PROVIDER, PROVIDER_KEYS, Timeouts};

use configuration::sentence;
use credentials::{Credentials, ServiceAccounts};
use key::ProviderKey;
use model_lookup::ModelLookup;
use resolved_model::{ResolvedModel, TimeLimits};
use retry_pause::RetryLimits;

/// The maximum number of models that an error about an unknown one suggests, and the minimum length of a part of their
/// names.
const MAX_SUGGESTIONS: usize = 5;
const MIN_PART: usize = 3;

/// Provider of a model that is configured with an address but without a provider.
const CUSTOM_PROVIDER: &str = "custom";

/// The name of the first model with a key among [`AUTO_MODELS`].
const AUTO: &str = "auto";

/// The models among which [`AUTO`] chooses. The last one needs no key.
const AUTO_MODELS: [&str; 5] = [
    "anthropic/claude-sonnet-5",
    "openai/gpt-5-mini",
    "google/gemini-2.5-flash",
    "mistral/mistral-small-latest",
    "dmr/ai/qwen3",
];

/// External dependencies of models. Passed in, so that tests are deterministic.
#[derive(Clone)]
pub struct ModelDependencies {
    /// Environment variables; the source of keys and base URLs.
    pub environment: BTreeMap<String, String>,
    /// Wall clock, for servers that report the time until which to wait.
    pub clock: Arc<dyn Clock>,
    /// Options of the HTTP client. Its timeouts are not used, because each model has its own. Redirects are
    /// never followed, because they would forward the key.
    pub http: HttpOptions,
    /// Model catalog: prices and limits.
    pub catalog: Catalog,
}

impl fmt::Debug for ModelDependencies {
    /// Omits the environment, which contains secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings")
            .field("clock", &self.clock)
            .field("http", &self.http)
            .finish_non_exhaustive()
    }
}

/// Models as configured by `models:` and `providers:` of an agent file, `settings.llm` and the environment.
/// Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Models {
    dependencies: Arc<ModelDependencies>,
    configured: Arc<ModelConfiguration>,
    known: &'static ProviderTable,
    pauses: Arc<dyn RetryPauses>,
    /// Key of the digests of secrets; created on first use if none was given.
    digests: Arc<OnceLock<DigestKey>>,
    /// Set of known secrets; contains the keys.
    secret_set: Arc<SecretSet>,
    clients: Arc<Mutex<Clients>>,
    rates: Arc<RequestRates>,
    accounts: Arc<ServiceAccounts>,
}

/// HTTP clients by their connect and idle timeouts.
type Clients = Vec<((Duration, Duration), HttpClient)>;

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Models")
            .field("surroundings", &self.dependencies)
            .field("configured", &self.configured)
            .finish_non_exhaustive()
    }
}

impl Models {
    /// Creates models from a configuration. Connects to nothing and reads no key before a model is used.
    #[must_use]
    pub fn new(dependencies: ModelDependencies, configured: ModelConfiguration) -> Self {
        Self {
            dependencies: Arc::new(dependencies),
            configured: Arc::new(configured),
            known: ProviderTable::built_in(),
            pauses: Arc::new(SystemRetryPauses),
            digests: Arc::default(),
            secret_set: Arc::default(),
            clients: Arc::default(),
            rates: Arc::default(),
            accounts: Arc::default(),
        }
    }

    /// Sets the key under which secrets in a model's identity are digested: see [`Model::identity`].
    #[must_use]
    pub fn with_digest_key(mut self, key: DigestKey) -> Self {
        self.digests = Arc::new(OnceLock::from(key));
        self
    }

    /// Registers the keys as secrets in `secret_set`: immediately those in the environment of every built-in or
    /// configured provider, so that the result does not depend on the first model that is used; others,
    /// which a call or a header names, before they are sent. Texts that are too short or too plain for a
    /// key (`x`, `not-needed`) are not registered.
    #[must_use]
    pub fn with_secrets(mut self, secret_set: Arc<SecretSet>) -> Self {
        self.accounts = Arc::new(ServiceAccounts::with_seals(Arc::clone(&secret_set)));
        self.secret_set = secret_set;
        self.register_secrets();
        self
    }

    fn register_secrets(&self) {
        let variables = self.known.key_variables();
        for variable in variables.chain(self.configured.key_variables()) {
            if let Some(key) = self.dependencies.environment.get(variable) {
                key::register_secrets(key, &self.secret_set);
            }
        }
    }

    /// Sets the implementation of the pauses between retries.
    #[must_use]
    pub fn with_pauses(mut self, pauses: Arc<dyn RetryPauses>) -> Self {
        self.pauses = pauses;
        self
    }

    /// Returns models with the same dependencies, configured by another file.
    #[must_use]
    pub fn with_configuration(&self, configured: ModelConfiguration) -> Self {
        let models = Self {
            configured: Arc::new(configured),
            ..self.clone()
        };
        models.register_secrets();
        models
    }

    /// Returns the configuration.
    #[must_use]
    pub fn configured(&self) -> &ModelConfiguration {
        &self.configured
    }

    /// Returns the catalog.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.dependencies.catalog
    }

    /// Finds a model by a key of `models:`, by `provider/model`, or by a bare name that implies its
    /// provider (`gpt-4o`, `claude-sonnet-5`).
    ///
    /// Keys are not read yet, because answers from a cache need none. See [`Model::ready`].
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`]: there is no such model or provider, or its address is not known.
    pub fn find(&self, name: &str) -> Result<Model, Error> {
        self.choose(Some(name), &ModelSettings::default())
    }

    /// Finds the model of this name, or the default model (`settings.llm`) if there is no name. The
    /// settings of `call` override all others.
    ///
    /// # Errors
    /// Those of [`Models::find`], also for a fallback; or there is neither a name nor a default.
    pub fn choose(&self, name: Option<&str>, call: &ModelSettings) -> Result<Model, Error> {
        let settings = self.settings(name, call);
        if let Some(candidates) = &settings.first_available {
            return self.first_available(candidates, call);
        }
        if name == Some(AUTO) && self.configured.model(AUTO).is_none() {
            return self.first_available(&AUTO_MODELS.map(str::to_owned), call);
        }
        let names = settings.fallbacks.clone().unwrap_or_default();
        let model = self.resolve(settings)?;
        // Fallbacks of a fallback are ignored.
        let of_any = call.for_any_model();
        let resolve = |name: &str, following: &[String]| {
            let settings = ModelSettings {
                fallbacks: Some(following.to_vec()),
                ..self.settings(Some(name), &of_any)
            };
            self.resolve(settings).map_err(|error| Error {
                message: format!("the fallback `{name}`: {}", error.message),
                ..error
            })
        };
        let mut others = Vec::with_capacity(names.len());
        for name in names {
            // The same model would fail in the same way.
            if !resolve(&name, &[])?.is_same_as(&model) {
                others.push(name);
            }
        }
        let fallbacks = others.iter().enumerate().map(|(place, name)| {
            let fallback = resolve(name, &others[place + 1..])?;
            Ok((name.clone(), fallback))
        });
        let fallbacks = fallbacks.collect::<Result<Vec<_>, Error>>()?;
        Ok(model.with_fallbacks(fallbacks))
    }

    /// Returns the first of these models with a key, or the first one if none has a key.
    fn first_available(&self, candidates: &[String], call: &ModelSettings) -> Result<Model, Error> {
        let mut first = None;
        for candidate in candidates {
            let own = self.configured.model(candidate);
            if own.is_some_and(|settings| settings.first_available.is_some()) {
                return Err(configuration(format!(
                    "`{candidate}` in `first_available` has `first_available` itself: name its models here"
                )));
            }
            let found = self.choose(Some(candidate), call);
            match found {
                Ok(model) if model.ready().is_ok() => return Ok(model),
                other => first.get_or_insert(other),
            };
        }
        first.unwrap_or_else(|| Err(configuration("`first_available` is empty")))
    }

    /// Returns the error if a model does not accept its configured format or reasoning effort, or the one
    /// in `call`, which takes precedence. The model is named as for [`Models::choose`]. Returns `None` for
    /// a model that cannot be found.
    #[must_use]
    pub fn refusal(&self, name: Option<&str>, call: &ModelSettings) -> Option<Error> {
        let found = self.look_up(self.settings(name, call)).ok()?;
        let format = found.format();
        format
            .and_then(|format| found.check_reasoning(format))
            .err()
    }

    /// Returns the configured parameters of a model that are not sent, because its API refuses them. The model
    /// is named as for [`Models::choose`]. Returns none for a model that cannot be found.
    #[must_use]
    pub fn unsent(&self, name: Option<&str>, call: &ModelSettings) -> Vec<UnsentParameter> {
        let Ok(found) = self.look_up(self.settings(name, call)) else {
            return Vec::new();
        };
        let Ok(format) = found.format() else {
            return Vec::new();
        };
        let capabilities = &found.listed.capabilities;
        let limits = &found.listed.limits;
        let model = found.model.clone();
        let mut parameters = accepted::configured(&found.settings, model, format, limits);
        accepted::adapt(&mut parameters, found.api_owner, format, capabilities)
    }

    /// Returns the merged settings of the model of this name.
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
            // `call.model` is applied already: the other settings are configured under this name.
            model: None,
            ..call.clone()
        };
        call.over(&settings).over(&common)
    }

    /// Returns the defaults for a model that `models:` does not contain. They include the defaults'
    /// provider and address, unless the name implies another provider.
    fn defaults_of(&self, name: &str) -> ModelSettings {
        let defaults = &self.configured.defaults;
        let named = name.split_once('/').map(|(provider, _)| provider);
        let named = named.filter(|provider| self.has_provider(provider));
        let theirs = defaults.provider.as_deref();
        let elsewhere = match (named, theirs) {
            (Some(named), theirs) => theirs != Some(named),
            // A gateway accepts models under their own names.
            (None, None) => false,
            (None, Some(theirs)) => self.known.owner(name).is_some_and(|owner| owner != theirs),
        };
        if elsewhere {
            defaults.for_any_model()
        } else {
            ModelSettings {
                model: None,
                ..defaults.clone()
            }
        }
    }

    /// Returns true if the provider is known or configured.
    #[must_use]
    pub fn has_provider(&self, name: &str) -> bool {
        self.configured.provider(name).is_some() || self.known.provider(name).is_some()
    }

    fn look_up(&self, settings: ModelSettings) -> Result<ModelLookup, Error> {
        let (name, model) = self.provider_and_model(&settings)?;
        if !self.has_provider(&name) && name != CUSTOM_PROVIDER {
            return Err(self.no_provider(&name));
        }
        let own = self.configured.provider(&name);
        let written = own.and_then(|own| own.extends.as_deref()).unwrap_or(&name);
        let extended = self.known.own_name(written).to_owned();
        let is_alias = extended != *written;
        let known = self.known.provider(&extended).cloned().unwrap_or_default();
        let mut settings = match own {
            Some(provider) => settings.over(provider),
            None => settings,
        };
        for (header, value) in &known.headers {
            let has = |(name, _): &(String, _)| name.eq_ignore_ascii_case(header);
            if !settings.headers.iter().any(has) {
                let value = Secret::new(value.clone());
                settings.headers.push((header.clone(), value));
            }
        }
        let name = match own {
            Some(_) => name,
            None => extended.clone(),
        };
        // Under the name `amazon-bedrock`, models of all makers are called.
        if is_alias && Cloud::original_name(&model).is_none() {
            settings.format.get_or_insert(Format::Converse);
        }
        let environment = &self.dependencies.environment;
        let is_set = |name: &String| {
            environment
                .get(name)
                .is_some_and(|value| !value.trim().is_empty())
        };
        let has_other_address =
            settings.base_url.is_some() || known.base_url_variables.iter().any(is_set);
        let api_owner = accepted::api_owner(&extended, has_other_address, known.cloud);
        let catalog_provider = settings.prices.clone().unwrap_or(extended);
        let catalog = &self.dependencies.catalog;
        let listed_name = match known.cloud {
            // An inference profile has the prices of the model in its name.
            Some(_) => model.rsplit('/').next().unwrap_or(&model),
            None => &model,
        };
        let listed = catalog.find(&catalog_provider, listed_name);
        let mut listed = listed.cloned().unwrap_or_default();
        // A cloud platform sets its own prices; the model's limits and capabilities are those at its maker.
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
        Ok(ModelLookup {
            listed,
            name,
            model,
            known,
            settings,
            catalog_provider,
            api_owner,
        })
    }

    fn resolve(&self, settings: ModelSettings) -> Result<Model, Error> {
        let found = self.look_up(settings)?;
        let format = found.format()?;
        found.check_reasoning(format)?;
        let refuses_tools_in_chat = found.refuses_tools_in_chat();
        let keyed_format = found.settings.format.unwrap_or(found.usual_format());
        let ModelLookup {
            name,
            model,
            known,
            settings,
            catalog_provider,
            api_owner,
            listed,
        } = found;
        let place = match (self.place(&name, &settings, &known), settings.unset.first()) {
            (Ok(place), _) => place,
            // An address with a variable that is not set counts as one that is missing. `Model::ready` reports the
            // variable.
            (Err(_), Some(_)) => ProviderAddress::unset()?,
            (Err(error), None) => return Err(error),
        };
        let key = ProviderKey::find(&settings, &known, &place, &self.dependencies.environment);
        let unset = settings.unset.first().or(place.unset.as_ref()).cloned();
        let limits = ModelLimits {
            context: settings.context,
            ..ModelLimits::default()
        }
        .or(listed.limits);
        let time = TimeLimits::new(&settings.timeouts);
        let (key, credentials) = match known.cloud {
            Some(cloud) => {
                let environment = &self.dependencies.environment;
                Credentials::choose(cloud, key, &settings, &place, environment, &self.accounts)
            }
            None => (key, None),
        };
        let (key, credentials) = match unset {
            Some(variable) => (ProviderKey::Unset(variable), None),
            None => (key, credentials),
        };
        let url = |streams| match known.cloud.filter(|_| format == Format::Messages) {
            Some(cloud) => cloud.endpoint(&place.url, &model, streams),
            None => for_format(format).url(&place.url, &model, streams),
        };
        let (url, stream_url) = (url(false), url(true));
        let marker_rules = MarkerRules::find(&catalog_provider, &model, format);
        let capabilities = listed.capabilities;
        let wire = FormatWire::for_model(
            format,
            marker_rules,
            &model,
            cloud::platform(known.cloud),
            &capabilities,
        );
        let mut parameters = accepted::configured(&settings, model, format, &limits);
        accepted::adapt(&mut parameters, api_owner, format, &capabilities);
        let resolved = ResolvedModel {
            url,
            stream_url,
            cloud: known.cloud,
            credentials,
            marker_rules,
            media: MediaLimits::find(&catalog_provider, format),
            keyed_format,
            is_format_fixed: settings.format.is_some(),
            catalog: self.dependencies.catalog.clone(),
            catalog_provider,
            api_owner,
            capabilities,
            wire,
            refuses_tools_in_chat,
            shown: cachalot_storage::masked(place.url.as_str()).into_owned(),
            is_direct: place.is_own || address::is_loopback(&place.url),
            priced_host: match settings.cost {
                Some(_) => None,
                None => place.url.host_str().map(str::to_owned),
            },
            base: place.url,
            key_header: key::header(&settings, &known, format),
            parameters,
            price: settings.cost.clone().or(listed.price),
            headers: header::headers(&settings, format, known.cloud)?,
            retries: retry_limits(&settings),
            repeats_timeouts: settings.retries.is_some(),
            http: self.client(time)?,
            clock: Arc::clone(&self.dependencies.clock),
            pauses: Arc::clone(&self.pauses),
            rates: Arc::clone(&self.rates),
            digests: Arc::clone(&self.digests),
            provider: name,
            key,
            format,
            limits,
            time,
        };
        resolved.prepare_digests()?;
        resolved.register_secrets(&self.secret_set);
        Ok(Model::new(resolved))
    }

    /// Returns the name of the model's provider and the model's name there.
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
        if let Some((provider, rest)) = model.split_once('/')
            && self.has_provider(provider)
            && !rest.is_empty()
        {
            return Ok(owned(provider, rest));
        }
        if let Some(provider) = self.known.owner(model) {
            return Ok(owned(provider, model));
        }
        if settings.base_url.is_some() {
            return Ok(owned(CUSTOM_PROVIDER, model));
        }
        Err(self.no_model(model))
    }

    /// Returns the address of the provider.
    fn place(
        &self,
        name: &str,
        settings: &ModelSettings,
        known: &BuiltInProvider,
    ) -> Result<ProviderAddress, Error> {
        let environment = &self.dependencies.environment;
        let invalid =
            |what: &str, wrong: AddressError| configuration(format!("{name}: {what} {wrong}"));
        let complete = |url| match known.cloud {
            Some(cloud) => cloud.complete(url, environment),
            None => Ok(url),
        };
        let mut variables = known.base_url_variables.iter();
        let set = variables.find_map(|variable| {
            let value = environment.get(variable)?;
            (!value.trim().is_empty()).then_some((variable, value))
        });
        let variable = set
            .map(|(variable, value)| {
                let url = address::from_variable(value, known.port, known.base_url_path.as_deref());
                url.and_then(complete).map_err(|wrong| {
                    invalid(&format!("the environment variable {variable}"), wrong)
                })
            })
            .transpose();
        let expanded = known.base_url.as_deref();
        let expanded = expanded.map(|url| address::with_variables(url, environment));
        let (expanded, unset) = expanded.unzip();
        let usual = || {
            let of_cloud = known.cloud.map(|cloud| cloud.base_url(environment));
            of_cloud
                .as_deref()
                .or(expanded.as_deref())
                .map(|url| {
                    let url = address::parse(url).and_then(complete);
                    url.map_err(|wrong| invalid("its base URL", wrong))
                })
                .transpose()
        };
        if let Some(text) = &settings.base_url {
            let url = address::parse(text).and_then(complete);
            let url = url.map_err(|wrong| invalid("`base_url`", wrong))?;
            // An invalid variable is ignored, because the file does not need it.
            let also = known.also_base_urls.iter();
            let mut own = [variable.unwrap_or_default(), usual().unwrap_or_default()]
                .into_iter()
                .flatten()
                .chain(also.filter_map(|url| address::parse(url).ok()));
            let is_own = own.any(|own| address::is_same_base(&own, &url));
            return Ok(ProviderAddress {
                url,
                is_own,
                unset: None,
            });
        }
        let variable = variable?;
        let unset = match variable {
            Some(_) => None,
            None => unset.flatten(),
        };
        match variable.map_or_else(usual, |url| Ok(Some(url)))? {
            Some(url) => Ok(ProviderAddress {
                url,
                is_own: true,
                unset,
            }),
            None => {
                let variables = known.base_url_variables.join(" or ");
                Err(configuration(format!(
                    "{name}: no address is configured: set `base_url: …`{}",
                    if variables.is_empty() {
                        String::new()
                    } else {
                        format!(", or set the environment variable {variables}")
                    }
                )))
            }
        }
    }

    /// Returns the client for these timeouts. The storage client's own idle timeout is longer, so that the
    /// model's timeouts apply first.
    fn client(&self, time: TimeLimits) -> Result<HttpClient, Error> {
        let limits = (
            time.connect,
            time.first_byte.max(time.idle) + Duration::from_secs(60),
        );
        let mut clients = self.clients.lock();
        if let Some((_, client)) = clients.iter().find(|(known, _)| *known == limits) {
            return Ok(client.clone());
        }
        let client = HttpClient::new(HttpOptions {
            connect_timeout: limits.0,
            idle_timeout: limits.1,
            redirects: 0,
            ..self.dependencies.http.clone()
        })
        .map_err(|error| configuration(error.to_string()))?;
        clients.push((limits, client.clone()));
        Ok(client)
    }

    fn no_provider(&self, name: &str) -> Error {
        let names = self.configured.provider_names(self.known);
        configuration(format!(
            "there is no provider `{name}`: {} Or set its address under `providers:`",
            sentence(&did_you_mean(name, &names))
        ))
    }

    /// Returns the newest models of a provider whose names contain `part`, as a list.
    fn containing(&self, part: &str) -> Option<String> {
        let catalog = &self.dependencies.catalog;
        let of = |provider| -> Vec<&str> {
            let models = catalog.models(provider);
            models.filter(|model| model.contains(part)).collect()
        };
        let providers = catalog.providers().filter(|_| part.len() >= MIN_PART);
        let found = providers.map(of).find(|found| !found.is_empty())?;
        // They are sorted by name.
        let newest = found.iter().rev().take(MAX_SUGGESTIONS);
        let shown: Vec<String> = newest.map(|model| format!("`{model}`")).collect();
        Some(shown.join(", "))
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
        let catalog = &self.dependencies.catalog;
        let own = self.configured.models.iter().map(|(name, _)| name.as_str());
        let listed = providers
            .iter()
            .flat_map(|provider| catalog.models(provider));
        let remedy = match (nearest(name, own.chain(listed)), self.containing(name)) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, Some(containing)) => format!("did you mean one of {containing}?"),
            (None, None) => {
                "add it to `models:`, or name its provider: `openai/…`, `anthropic/…`, `ollama/…`"
                    .to_owned()
            }
        };
        configuration(format!("there is no model `{name}`: {remedy}"))
    }
}

/// Returns the limits of retries. By default, a rate limit is waited for unless another model answers instead, or the
/// user wants no retries.
fn retry_limits(settings: &ModelSettings) -> RetryLimits {
    let fallbacks = settings.fallbacks.as_deref().unwrap_or_default();
    let is_waited_for = fallbacks.is_empty() && settings.retries != Some(0);
    let usual = if is_waited_for {
        ResolvedModel::RATE_LIMIT_WAIT
    } else {
        Duration::ZERO
    };
    RetryLimits {
        retries: settings.retries.unwrap_or(ResolvedModel::RETRIES),
        rate_limit_wait: settings.rate_limit_wait.unwrap_or(usual),
    }
}

/// Address of a provider.
struct ProviderAddress {
    url: url::Url,
    /// True if the address is the provider's own, or that of its own environment variable.
    is_own: bool,
    /// An environment variable that the address needs and that is not set.
    unset: Option<String>,
}

impl ProviderAddress {
    /// The address of a model that cannot be called: no server has it (RFC 6761).
    fn unset() -> Result<Self, Error> {
        let url = address::parse("http://unset.invalid")
            .map_err(|wrong| configuration(format!("`base_url` {wrong}")))?;
        Ok(Self {
            url,
            is_own: false,
            unset: None,
        })
    }
}

fn configuration(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Configuration, message)
}
