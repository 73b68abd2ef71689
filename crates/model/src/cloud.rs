//! Cloud platforms that serve models of other makers at their own addresses: Amazon Bedrock and Google Vertex
//! AI.

use std::collections::BTreeMap;

use cachalot_wire::address::encode_segment;
use cachalot_wire::messages::Platform;
use url::Url;

use crate::address::AddressError;

/// A cloud platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cloud {
    /// Amazon Bedrock.
    Bedrock,
    /// Google Vertex AI.
    Vertex,
}

/// The platform of a model, for its format.
pub(crate) fn platform(cloud: Option<Cloud>) -> Platform {
    match cloud {
        None => Platform::Maker,
        Some(Cloud::Bedrock) => Platform::Bedrock,
        Some(Cloud::Vertex) => Platform::Vertex,
    }
}

/// The environment variables.
pub(crate) type Environment = BTreeMap<String, String>;

/// Returns the first of these variables that is not empty.
pub(crate) fn variable<'e>(environment: &'e Environment, names: &[&str]) -> Option<&'e str> {
    names
        .iter()
        .filter_map(|name| environment.get(*name).map(|value| value.trim()))
        .find(|value| !value.is_empty())
}

impl Cloud {
    /// Returns the region of the environment, or the platform's default region.
    pub(crate) fn region(self, environment: &Environment) -> &str {
        let (names, usual) = match self {
            Self::Bedrock => (["AWS_REGION", "AWS_DEFAULT_REGION"], "us-east-1"),
            Self::Vertex => (["CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION"], "global"),
        };
        variable(environment, &names).unwrap_or(usual)
    }

    /// Returns the base URL in the region of the environment.
    pub(crate) fn base_url(self, environment: &Environment) -> String {
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
    /// The project is missing.
    pub(crate) fn complete(
        self,
        mut url: Url,
        environment: &Environment,
    ) -> Result<Url, AddressError> {
        if self == Self::Bedrock || url.path().contains("/projects/") {
            return Ok(url);
        }
        let names = ["ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT"];
        let Some(project) = variable(environment, &names) else {
            return Err(AddressError::NoProject);
        };
        let before = url.path().trim_end_matches('/');
        let version = if before.ends_with("/v1") { "" } else { "/v1" };
        let region = self.region(environment);
        let path = format!("{before}{version}/projects/{project}/locations/{region}");
        url.set_path(&path);
        Ok(url)
    }

    /// Returns the endpoint of one of Anthropic's models.
    pub(crate) fn endpoint(self, base: &Url, model: &str, streams: bool) -> Url {
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
            Self::Bedrock => encode_segment(model),
            // The version after `@` is not escaped.
            Self::Vertex => encode_segment(model).replace("%40", "@"),
        };
        let mut url = base.clone();
        url.set_path(&format!("{before}/{folder}/{model}{method}"));
        url
    }

    /// The remedy for requests without credentials.
    pub(crate) const fn missing(self) -> &'static str {
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
    pub(crate) fn original_name(model: &str) -> Option<&str> {
        let name = model.get(model.find("claude-")?..)?;
        let name = name.strip_suffix("@default").unwrap_or(name);
        let is_version = |text: &str| {
            let mut numbers = text.split(':');
            numbers.all(|number| {
                !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
            })
        };
        match name.rsplit_once("-v") {
            Some((before, version)) if is_version(version) => Some(before),
            _ => Some(name),
        }
    }

    /// The variable that `token_key` names to allow the platform's credentials at another address.
    pub(crate) const fn token_key(self) -> &'static str {
        match self {
            Self::Bedrock => "AWS_SECRET_ACCESS_KEY",
            Self::Vertex => "GOOGLE_APPLICATION_CREDENTIALS",
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../tests/unit/cloud.rs"]
mod tests;
