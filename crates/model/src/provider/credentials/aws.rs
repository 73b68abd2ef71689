//! Requests to AWS, signed with an access key (signature version 4).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use cachalot_core::Millis;
use cachalot_storage::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use url::Url;

use crate::cloud::variable;
use crate::error::{Error, ErrorKind};

/// The service name in signatures of Bedrock.
const SERVICE: &str = "bedrock";

/// An access key. Its `Debug` output masks the secrets.
#[derive(Debug, Clone)]
pub(crate) struct AccessKey {
    credentials: Credentials,
    /// Region of the signature, unless the address contains one.
    region: String,
}

impl AccessKey {
    /// Returns the access key of `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`, or
    /// else that of the profile `AWS_PROFILE` (default: `default`) in `~/.aws/credentials`.
    pub(super) fn find(environment: &BTreeMap<String, String>, region: &str) -> Option<Self> {
        let of_environment = || {
            let read = |name| variable(environment, &[name]).map(str::to_owned);
            Some(Credentials::new(
                read("AWS_ACCESS_KEY_ID")?,
                read("AWS_SECRET_ACCESS_KEY")?,
                read("AWS_SESSION_TOKEN"),
                None,
                "environment",
            ))
        };
        let of_profile = || {
            let file = variable(environment, &["AWS_SHARED_CREDENTIALS_FILE"]);
            let file = file.map(PathBuf::from).or_else(|| {
                let home = variable(environment, &["HOME", "USERPROFILE"])?;
                Some(PathBuf::from(home).join(".aws/credentials"))
            })?;
            let text = std::fs::read_to_string(file).ok()?;
            let name = variable(environment, &["AWS_PROFILE"]).unwrap_or("default");
            let read = |key| profile_value(&text, name, key).map(str::to_owned);
            Some(Credentials::new(
                read("aws_access_key_id")?,
                read("aws_secret_access_key")?,
                read("aws_session_token"),
                None,
                "profile",
            ))
        };
        Some(Self {
            credentials: of_environment().or_else(of_profile)?,
            region: region.to_owned(),
        })
    }

    /// Returns the secret parts.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        let secret = self.credentials.secret_access_key();
        [Some(secret), self.credentials.session_token()]
            .into_iter()
            .flatten()
    }

    /// Signs a `POST` request: adds `x-amz-date`, `x-amz-security-token` and `authorization`.
    ///
    /// The signature covers the host, the content type, the added headers and the body.
    pub(super) fn sign(
        &self,
        headers: &mut HeaderMap,
        url: &Url,
        body: &[u8],
        now: Millis,
    ) -> Result<(), Error> {
        // The causes are omitted, because they may contain the signed data.
        let failed = |what: &str| {
            Error::new(
                ErrorKind::Unauthorized,
                format!("the request could not be signed: {what}; check the AWS access key"),
            )
        };
        let identity = self.credentials.clone().into();
        let since = Duration::from_millis(u64::try_from(now).unwrap_or_default());
        let parameters = SigningParams::builder()
            .identity(&identity)
            .region(region_of(url).unwrap_or(&self.region))
            .name(SERVICE)
            .time(SystemTime::UNIX_EPOCH + since)
            .settings(SigningSettings::default())
            .build()
            .map_err(|_| failed("a parameter is missing"))?
            .into();
        let content_type = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let signed = content_type.map(|value| (CONTENT_TYPE.as_str(), value));
        let body = SignableBody::Bytes(body);
        let request = SignableRequest::new("POST", url.as_str(), signed.into_iter(), body)
            .map_err(|_| failed("its address is invalid"))?;
        let (instructions, _) = sign(request, &parameters)
            .map_err(|_| failed("a header is invalid"))?
            .into_parts();
        for (name, value) in instructions.headers() {
            let header = HeaderName::try_from(name).ok().zip(value.parse().ok());
            let (name, mut value): (_, HeaderValue) =
                header.ok_or_else(|| failed("the access key holds control characters"))?;
            // Debug output of the request omits the signature and the session token.
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(())
    }
}

/// Returns the region in the host name of an AWS endpoint.
fn region_of(url: &Url) -> Option<&str> {
    let host = url.host_str()?.strip_suffix(".amazonaws.com")?;
    let (service, region) = host.split_once('.')?;
    service
        .starts_with("bedrock-runtime")
        .then_some(region)
        .filter(|region| !region.contains('.'))
}

/// Returns a value of a profile in a credentials file.
fn profile_value<'t>(text: &'t str, profile: &str, key: &str) -> Option<&'t str> {
    let mut is_inside = false;
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            is_inside = name.trim() == profile;
        } else if is_inside
            && let Some((name, value)) = line.split_once('=')
            && name.trim().eq_ignore_ascii_case(key)
        {
            found = Some(value.trim());
        }
    }
    found.filter(|value| !value.is_empty())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../../tests/unit/provider/credentials/aws.rs"]
mod tests;
