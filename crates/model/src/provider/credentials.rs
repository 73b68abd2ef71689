//! Credentials of cloud platforms.
//!
//! - Bedrock: requests are signed with an access key ([`aws`]), or carry an API key as bearer token.
//! - Vertex AI: requests carry an access token, which is requested for a service account ([`google`]).

use std::sync::Arc;

use cachalot_core::{Clock, SecretSet};
use cachalot_storage::HttpClient;
use cachalot_storage::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use url::Url;

use super::ProviderAddress;
use super::key::{self, ProviderKey};
use super::settings::ModelSettings;
use crate::cloud::{Cloud, Environment, variable};
use crate::error::{Error, ErrorKind};

mod aws;
mod google;

pub(super) use google::ServiceAccounts;

/// Credentials that authorize each request separately.
#[derive(Debug, Clone)]
pub(crate) enum Credentials {
    /// An access key of AWS.
    Aws(aws::AccessKey),
    /// A service account of Google.
    Google(Arc<google::ServiceAccount>),
}

impl Credentials {
    /// Chooses between a bearer token (`key`) and the platform's credentials.
    ///
    /// A bearer token wins, as in the platforms' own clients. Credentials are used only for the platform's
    /// own address, or for an address for which `token_key` names them.
    pub(super) fn choose(
        cloud: Cloud,
        key: ProviderKey,
        settings: &ModelSettings,
        place: &ProviderAddress,
        environment: &Environment,
        accounts: &ServiceAccounts,
    ) -> (ProviderKey, Option<Self>) {
        let is_named = settings.token_key.as_deref() == Some(cloud.token_key());
        let has_token = matches!(key, ProviderKey::Present { .. }) && !is_named;
        if has_token || !(place.is_own || is_named) {
            return (key, None);
        }
        let found = match cloud {
            Cloud::Bedrock => {
                let region = cloud.region(environment);
                aws::AccessKey::find(environment, region).map(Self::Aws)
            }
            Cloud::Vertex => variable(environment, &[cloud.token_key()])
                .map(|file| Self::Google(accounts.at(file))),
        };
        match found {
            Some(found) => (ProviderKey::None { withheld: None }, Some(found)),
            // The secret that signs requests is never sent as a key.
            None if is_named => (ProviderKey::Missing(cloud.token_key().to_owned()), None),
            None => (key, None),
        }
    }

    /// Returns the secrets that are known so far.
    pub(crate) fn secrets(&self) -> Vec<String> {
        match self {
            Self::Aws(access_key) => access_key.secrets().map(str::to_owned).collect(),
            Self::Google(account) => account.current_token().into_iter().collect(),
        }
    }

    /// Drops a refused access token, so that the next request obtains a new one.
    pub(crate) fn expire(&self) {
        if let Self::Google(account) = self {
            account.expire();
        }
    }

    /// Registers the secrets, so that they are masked in all output.
    pub(super) fn register_secrets(&self, secret_set: &SecretSet) {
        for secret in self.secrets() {
            key::register_secrets(&secret, secret_set);
        }
    }

    /// Adds headers that authorize a `POST` request with these headers and this body.
    ///
    /// # Errors
    /// The credentials are unusable, or no access token could be obtained.
    pub(crate) async fn authorize(
        &self,
        headers: &mut HeaderMap,
        url: &Url,
        body: &[u8],
        http: &HttpClient,
        clock: &dyn Clock,
    ) -> Result<(), Error> {
        match self {
            Self::Aws(access_key) => access_key.sign(headers, url, body, clock.now()),
            Self::Google(account) => {
                let token = account.token(http, clock).await?;
                let value = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
                let mut value = value.map_err(|_| {
                    Error::new(
                        ErrorKind::Unauthorized,
                        "the access token holds control characters; check `token_uri` in the service account's file",
                    )
                })?;
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
                Ok(())
            }
        }
    }
}
