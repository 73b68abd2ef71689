//! Cloud platforms that serve models of other makers with their own addresses and credentials: Amazon
//! Bedrock and Google Vertex AI.
//!
//! - Bedrock: requests are signed with an access key ([`aws`]), or carry an API key as bearer token.
//! - Vertex AI: requests carry an access token, which is requested for a service account ([`google`]).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use cachalot_core::{Clock, SecretSet};
use cachalot_storage::HttpClient;
use cachalot_storage::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use url::Url;

use super::key::{self, ProviderKey};
use super::settings::ModelSettings;
use super::{ProviderAddress, address};
use crate::error::{Error, ErrorKind};

mod aws;
mod google;

pub(super) use google::ServiceAccounts;

/// A cloud platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cloud {
    /// Amazon Bedrock.
    Bedrock,
    /// Google Vertex AI.
    Vertex,
}

type Environment = BTreeMap<String, String>;

/// Returns the first of these variables that is not empty.
fn variable<'e>(environment: &'e Environment, names: &[&str]) -> Option<&'e str> {
    names
        .iter()
        .filter_map(|name| environment.get(*name).map(|value| value.trim()))
        .find(|value| !value.is_empty())
}

impl Cloud {
    /// Parses the value of `cloud` in the file of providers.
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "bedrock" => Some(Self::Bedrock),
            "vertex" => Some(Self::Vertex),
            _ => None,
        }
    }

    /// Returns the region of the environment, or the platform's default region.
    fn region(self, environment: &Environment) -> &str {
        let (names, usual) = match self {
            Self::Bedrock => (["AWS_REGION", "AWS_DEFAULT_REGION"], "us-east-1"),
            Self::Vertex => (["CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION"], "global"),
        };
        variable(environment, &names).unwrap_or(usual)
    }

    /// Returns the base URL in the region of the environment.
    pub(super) fn base_url(self, environment: &Environment) -> String {
        let region = self.region(environment);
        match self {
            Self::Bedrock => format!("https://bedrock-runtime.{region}.amazonaws.com"),
            Self::Vertex => match region {
                "global" => "https://aiplatform.googleapis.com/v1".to_owned(),
                // Endpoints of several regions have names of their own.
                "us" | "eu" => format!("https://aiplatform.{region}.rep.googleapis.com/v1"),
                _ => format!("https://{region}-aiplatform.googleapis.com/v1"),
            },
        }
    }

    /// Adds the environment's project and location to a base URL of Vertex AI without a project.
    ///
    /// # Errors
    /// The project is missing; the text continues the name of the setting: "needs … ; what to do".
    pub(super) fn complete(self, mut url: Url, environment: &Environment) -> Result<Url, String> {
        if self == Self::Bedrock || url.path().contains("/projects/") {
            return Ok(url);
        }
        let names = ["ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT"];
        let Some(project) = variable(environment, &names) else {
            return Err(
                "names no project; set GOOGLE_CLOUD_PROJECT, or write `base_url: …/v1/projects/PROJECT/locations/REGION`"
                    .to_owned(),
            );
        };
        let before = url.path().trim_end_matches('/');
        let version = match before.ends_with("/v1") {
            true => "",
            false => "/v1",
        };
        let region = self.region(environment);
        let path = format!("{before}{version}/projects/{project}/locations/{region}");
        url.set_path(&path);
        Ok(url)
    }

    /// Returns the endpoint of one of Anthropic's models.
    pub(super) fn endpoint(self, base: &Url, model: &str, streams: bool) -> Url {
        let method = match (self, streams) {
            (Self::Bedrock, false) => "/invoke",
            (Self::Bedrock, true) => "/invoke-with-response-stream",
            (Self::Vertex, false) => ":rawPredict",
            (Self::Vertex, true) => ":streamRawPredict",
        };
        let folder = match self {
            Self::Bedrock => "model",
            Self::Vertex => "publishers/anthropic/models",
        };
        let before = base.path().trim_end_matches('/');
        let model = match self {
            Self::Bedrock => address::encode_segment(model),
            // The version after `@` is not escaped.
            Self::Vertex => address::encode_segment(model).replace("%40", "@"),
        };
        let mut url = base.clone();
        url.set_path(&format!("{before}/{folder}/{model}{method}"));
        url
    }

    /// The remedy for requests without credentials.
    pub(super) const fn missing(self) -> &'static str {
        match self {
            Self::Bedrock => {
                "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_BEARER_TOKEN_BEDROCK, or AWS_PROFILE with a profile of ~/.aws/credentials that holds an access key"
            }
            Self::Vertex => {
                "no credentials: set GOOGLE_APPLICATION_CREDENTIALS to the path of a service account's key file, or ANTHROPIC_VERTEX_ACCESS_TOKEN to an access token (`gcloud auth print-access-token`)"
            }
        }
    }

    /// The remedy for credentials that are refused.
    pub(crate) const fn refused(self) -> &'static str {
        match self {
            Self::Bedrock => {
                "check the AWS access key, its permissions for the model, the region and the clock"
            }
            Self::Vertex => {
                "check the service account, its permissions in the project, and that the model is enabled there"
            }
        }
    }

    /// Returns the name of an Anthropic model in Anthropic's own API: `claude-sonnet-4-5-20250929` for
    /// `us.anthropic.claude-sonnet-4-5-20250929-v1:0`.
    pub(super) fn original_name(model: &str) -> Option<&str> {
        let name = model.get(model.find("claude-")?..)?;
        let name = name.strip_suffix("@default").unwrap_or(name);
        let is_version = |text: &str| {
            let mut numbers = text.split(':');
            numbers.all(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
        };
        match name.rsplit_once("-v") {
            Some((before, version)) if is_version(version) => Some(before),
            _ => Some(name),
        }
    }

    /// The variable that `token_key` names to allow the platform's credentials at another address.
    const fn token_key(self) -> &'static str {
        match self {
            Self::Bedrock => "AWS_SECRET_ACCESS_KEY",
            Self::Vertex => "GOOGLE_APPLICATION_CREDENTIALS",
        }
    }
}

/// Credentials that authorize each request separately.
#[derive(Clone)]
pub(crate) enum Credentials {
    /// An access key of AWS.
    Aws(aws::AccessKey),
    /// A service account of Google.
    Google(Arc<google::ServiceAccount>),
}

impl fmt::Debug for Credentials {
    /// Omits the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aws(_) => "Aws(..)",
            Self::Google(_) => "Google(..)",
        })
    }
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_of_clouds_lead_to_those_of_the_maker() {
        for (name, original) in [
            (
                "anthropic.claude-sonnet-4-5-20250929-v1:0",
                Some("claude-sonnet-4-5-20250929"),
            ),
            ("us.anthropic.claude-opus-4-6-v1", Some("claude-opus-4-6")),
            ("global.anthropic.claude-opus-4-8", Some("claude-opus-4-8")),
            (
                "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-5",
                Some("claude-opus-5"),
            ),
            ("claude-opus-5@default", Some("claude-opus-5")),
            (
                "claude-sonnet-4-5@20250929",
                Some("claude-sonnet-4-5@20250929"),
            ),
            ("amazon.nova-lite-v1:0", None),
        ] {
            assert_eq!(Cloud::original_name(name), original, "{name}");
        }
    }

    #[test]
    fn base_urls_follow_the_region() {
        let url = |cloud: Cloud, variable: &str, region: &str| {
            cloud.base_url(&[(variable.to_owned(), region.to_owned())].into())
        };
        let vertex = |region| url(Cloud::Vertex, "CLOUD_ML_REGION", region);
        assert_eq!(vertex(""), "https://aiplatform.googleapis.com/v1");
        assert_eq!(vertex("us"), "https://aiplatform.us.rep.googleapis.com/v1");
        let one = "https://us-east5-aiplatform.googleapis.com/v1";
        assert_eq!(vertex("us-east5"), one);
        let bedrock = |variable| url(Cloud::Bedrock, variable, "eu-west-1");
        let ireland = "https://bedrock-runtime.eu-west-1.amazonaws.com";
        assert_eq!(bedrock("AWS_DEFAULT_REGION"), ireland);
    }
}
