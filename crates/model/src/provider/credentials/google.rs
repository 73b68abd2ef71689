//! Access tokens for a service account of Google:
//! <https://developers.google.com/identity/protocols/oauth2/service-account#authorizingrequests>.
//!
//! Signatures are created with `ring`, which is also the backend of TLS. `google-cloud-auth` and
//! `jsonwebtoken` do not fit: the first reads the system clock, refreshes in background tasks and bypasses
//! the configured HTTP client; the second signs through a global backend.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cachalot_core::{Clock, Millis, Secret, SecretSet};
use cachalot_storage::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use cachalot_storage::{HttpClient, Method, Response};
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::address;
use crate::error::{Error, ErrorKind};
use crate::provider::key;

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// The grant type of a signed assertion (RFC 7523).
const GRANT: &str = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";

/// Lifetime of an assertion in seconds: the maximum that Google accepts.
const LIFETIME: i64 = 3_600;

/// Time before its expiry at which a token is replaced, in milliseconds.
const EXPIRY_MARGIN: Millis = 60_000;

/// Timeout of a token request.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of a token endpoint's answer, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Service accounts by the path of their files, so that all models share a token.
#[derive(Debug, Default)]
pub(crate) struct ServiceAccounts {
    secret_set: Arc<SecretSet>,
    known: Mutex<BTreeMap<PathBuf, Arc<ServiceAccount>>>,
}

impl ServiceAccounts {
    /// Creates accounts whose tokens are registered as secrets.
    pub(in crate::provider) fn with_seals(secret_set: Arc<SecretSet>) -> Self {
        Self {
            secret_set,
            known: Mutex::default(),
        }
    }

    /// Returns the account of this file. The file is not read yet.
    pub(super) fn at(&self, file: &str) -> Arc<ServiceAccount> {
        let mut known = self.known.lock();
        let account = known.entry(PathBuf::from(file)).or_insert_with_key(|file| {
            Arc::new(ServiceAccount {
                file: file.clone(),
                secret_set: Arc::clone(&self.secret_set),
                token: tokio::sync::Mutex::default(),
            })
        });
        Arc::clone(account)
    }
}

/// A service account and its latest access token.
#[derive(Debug)]
pub(crate) struct ServiceAccount {
    file: PathBuf,
    secret_set: Arc<SecretSet>,
    /// The token and the time until which it is used. Locked during a token request, so that concurrent
    /// requests share one.
    token: tokio::sync::Mutex<Option<(Secret<String>, Millis)>>,
}

impl ServiceAccount {
    /// Returns the latest token; `None` while one is being requested.
    pub(super) fn current_token(&self) -> Option<String> {
        let current_token = self.token.try_lock().ok()?;
        current_token
            .as_ref()
            .map(|(token, _)| token.expose().clone())
    }

    /// Drops the token.
    pub(super) fn expire(&self) {
        // While the lock is held, a new token is being requested.
        if let Ok(mut current_token) = self.token.try_lock() {
            *current_token = None;
        }
    }

    /// Returns an access token that is valid for at least another minute. The file is read again for each
    /// new token, so that a rotated key takes effect.
    pub(super) async fn token(
        &self,
        http: &HttpClient,
        clock: &dyn Clock,
    ) -> Result<Secret<String>, Error> {
        let mut current_token = self.token.lock().await;
        let now = clock.now();
        if let Some((token, until)) = &*current_token
            && now < *until
        {
            return Ok(token.clone());
        }
        let (token, seconds) = AccountKey::read(&self.file)?.request(http, now).await?;
        // Before the token leaves this function: no text with it may be stored or shown.
        key::register_secrets(token.expose(), &self.secret_set);
        let until = now.saturating_add(seconds.saturating_mul(1_000)) - EXPIRY_MARGIN;
        *current_token = Some((token.clone(), until));
        Ok(token)
    }
}

/// The content of a service account's file.
struct AccountKey {
    email: String,
    key_id: Option<String>,
    key: RsaKeyPair,
    token_uri: String,
}

impl AccountKey {
    fn read(file: &Path) -> Result<Self, Error> {
        let wrong = |what: &dyn Display| {
            let file = file.display();
            Error::new(
                ErrorKind::Unauthorized,
                format!(
                    "the file `{file}` {what}; set GOOGLE_APPLICATION_CREDENTIALS to the path of a service account's key file"
                ),
            )
        };
        let text = std::fs::read_to_string(file)
            .map_err(|error| wrong(&format_args!("cannot be read ({error})")))?;
        // The parser's message is omitted, because it could quote the file.
        let value: Value = serde_json::from_str(&text).map_err(|_| wrong(&"is not JSON"))?;
        let field = |name: &str| value.get(name).and_then(Value::as_str);
        let needed =
            |name: &str| field(name).ok_or_else(|| wrong(&format_args!("has no `{name}`")));
        if let Some(kind) = field("type")
            && kind != "service_account"
        {
            return Err(wrong(&format_args!(
                "holds credentials of the type `{kind}`, which are not supported"
            )));
        }
        let token_uri = field("token_uri").unwrap_or("https://oauth2.googleapis.com/token");
        // The signed assertion is as good as a token. It is sent over TLS, or within this machine.
        let is_safe = url::Url::parse(token_uri)
            .is_ok_and(|url| url.scheme() == "https" || address::is_loopback(&url));
        if !is_safe {
            return Err(wrong(
                &"has a `token_uri` that does not begin with https://",
            ));
        }
        let key = PrivatePkcs8KeyDer::from_pem_slice(needed("private_key")?.as_bytes())
            .ok()
            .and_then(|der| RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).ok())
            .ok_or_else(|| wrong(&"has a `private_key` that is not an RSA key in PKCS #8"))?;
        Ok(Self {
            email: needed("client_email")?.to_owned(),
            key_id: field("private_key_id").map(str::to_owned),
            token_uri: token_uri.to_owned(),
            key,
        })
    }

    /// Requests an access token; returns it with its lifetime in seconds.
    async fn request(
        &self,
        http: &HttpClient,
        now: Millis,
    ) -> Result<(Secret<String>, i64), Error> {
        let failed = |kind, what: &dyn Display| {
            let email = &self.email;
            Error::new(kind, format!("no access token for `{email}`: {what}"))
        };
        let assertion = self
            .assertion(now / 1_000)
            .ok_or_else(|| failed(ErrorKind::Unauthorized, &"the private key cannot sign"))?;
        let content_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        let request = http
            .request(Method::POST, &self.token_uri)
            .map_err(|error| failed(ErrorKind::Configuration, &error.message))?
            .headers(HeaderMap::from_iter([(CONTENT_TYPE, content_type)]))
            .body(format!("grant_type={GRANT}&assertion={assertion}"));
        let exchange = async {
            let response = http.send(request).await;
            let response =
                response.map_err(|error| failed(ErrorKind::Unreachable, &error.message))?;
            let status = response.status();
            Ok::<_, Error>((status, read_body(response).await))
        };
        let (status, body) = timeout(TOKEN_TIMEOUT, exchange).await.map_err(|_| {
            let uri = cachalot_storage::masked(&self.token_uri);
            let what = format!("`{uri}` did not answer within {TOKEN_TIMEOUT:?}");
            failed(ErrorKind::TimedOut, &what)
        })??;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        match text("access_token").filter(|token| !token.is_empty()) {
            Some(token) if status.is_success() => {
                let seconds = answer.get("expires_in").and_then(Value::as_i64);
                Ok((Secret::new(token.to_owned()), seconds.unwrap_or(LIFETIME)))
            }
            _ => {
                let kind = match status.as_u16() {
                    429 => ErrorKind::Limited,
                    500.. => ErrorKind::Unavailable,
                    _ => ErrorKind::Unauthorized,
                };
                let reason = text("error_description").or(text("error"));
                let reason = reason.unwrap_or("the endpoint gave no reason");
                let what = format!(
                    "{reason} (status {}); check the key file and the clock",
                    status.as_u16()
                );
                Err(failed(kind, &what))
            }
        }
    }

    /// Returns the signed assertion: a JSON Web Token.
    fn assertion(&self, now: i64) -> Option<String> {
        let mut header = json!({"alg": "RS256", "typ": "JWT"});
        if let Some(id) = &self.key_id {
            header["kid"] = id.as_str().into();
        }
        let claims = json!({
            "iss": self.email,
            "scope": SCOPE,
            "aud": self.token_uri,
            "iat": now,
            "exp": now + LIFETIME,
        });
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&claims));
        let mut signature = vec![0; self.key.public().modulus_len()];
        let random = SystemRandom::new();
        let message = signed.as_bytes();
        self.key
            .sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
            .ok()?;
        Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// Reads as much of the answer as arrives, up to [`MAX_ANSWER_BYTES`] bytes.
async fn read_body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        if body.len() + chunk.len() > MAX_ANSWER_BYTES {
            break;
        }
        body.extend_from_slice(&chunk);
    }
    body
}
