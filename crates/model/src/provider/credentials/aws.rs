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
        let content_type = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
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
        if let Some(name) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
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
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read() {
        let text = "# keys\n[default]\naws_access_key_id = A\n aws_secret_access_key=B=\n\n[ work ]\naws_access_key_id = C\n";
        assert_eq!(
            profile_value(text, "default", "aws_access_key_id"),
            Some("A")
        );
        assert_eq!(
            profile_value(text, "default", "aws_secret_access_key"),
            Some("B=")
        );
        assert_eq!(profile_value(text, "work", "aws_access_key_id"), Some("C"));
        assert_eq!(profile_value(text, "work", "aws_secret_access_key"), None);
        assert_eq!(profile_value(text, "other", "aws_access_key_id"), None);
    }

    /// The expected signature is that of botocore 1.44.5 for the same request.
    #[test]
    fn signatures_equal_those_of_the_official_client() {
        let environment = [
            ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
            (
                "AWS_SECRET_ACCESS_KEY",
                "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
            ),
            ("AWS_SESSION_TOKEN", "a-session"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let access_key = AccessKey::find(&environment.into(), "eu-west-1").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke";
        let url = Url::parse(url).unwrap();
        let body = br#"{"max_tokens":1}"#;
        access_key
            .sign(&mut headers, &url, body, 1_795_228_920_000)
            .unwrap();
        assert_eq!(
            headers["authorization"],
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261121/us-east-1/bedrock/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature=01276ce8a93aa640f7dbdf1a14634d91f2a2032b61c94c84a7de9d2869e269fc"
        );
        assert_eq!(headers["x-amz-date"], "20261121T024200Z");
        assert_eq!(headers["x-amz-security-token"], "a-session");
        assert!(headers.values().skip(1).all(HeaderValue::is_sensitive));
        assert!(!format!("{access_key:?}").contains("wJalr"));
    }

    #[test]
    fn region_is_read_from_the_endpoint_host() {
        let region = |url: &str| region_of(&url.parse().unwrap()).map(str::to_owned);
        assert_eq!(
            region("https://bedrock-runtime.eu-west-1.amazonaws.com/").as_deref(),
            Some("eu-west-1")
        );
        assert_eq!(
            region("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/").as_deref(),
            Some("us-gov-west-1")
        );
        assert_eq!(region("http://127.0.0.1:4010/"), None);
        assert_eq!(region("https://x.vpce.amazonaws.com/"), None);
    }
}
