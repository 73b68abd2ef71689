//! Tokens for APIs of Google Cloud other than storage.

use std::collections::BTreeMap;

use object_store::gcp::GcpCredentialProvider;

use super::{Cloud, Connector, ErrorContext, settings};
use crate::error::Error;
use crate::http::HttpClient;

/// The credentials of the environment, as for `gs://` URIs: a service account, the logged-in user, or the metadata
/// service of the machine. Tokens are renewed before they expire.
pub struct GoogleCredentials {
    provider: GcpCredentialProvider,
    context: ErrorContext,
}

impl GoogleCredentials {
    /// Reads the credentials. `uri` is what they are for, for error messages.
    ///
    /// # Errors
    /// If a file of credentials is missing or invalid.
    pub fn new(
        uri: &str,
        environment: &BTreeMap<String, String>,
        http: HttpClient,
    ) -> Result<Self, Error> {
        let context = ErrorContext {
            uri: uri.to_owned(),
            cloud: Cloud::Google,
            secrets: settings::secrets(environment),
        };
        let client = settings::google(environment)
            // Needed by the builder, and used by no request.
            .with_bucket_name("none")
            .with_retry(super::retries())
            .with_http_connector(Connector(http))
            .build()
            .map_err(|error| context.about(&error))?;
        Ok(Self {
            provider: std::sync::Arc::clone(client.credentials()),
            context,
        })
    }

    /// Returns a token for the header `Authorization`.
    ///
    /// # Errors
    /// If there are no credentials, or the server of tokens refuses them or cannot be reached.
    pub async fn token(&self) -> Result<String, Error> {
        let credential = self.provider.get_credential().await;
        let credential = credential.map_err(|error| self.context.about(&error))?;
        Ok(credential.bearer.clone())
    }
}
