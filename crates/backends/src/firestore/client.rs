//! Requests to the REST API (<https://firebase.google.com/docs/firestore/reference/rest>).

use std::collections::BTreeMap;

use cachalot_storage::{GoogleCredentials, HttpClient, Method, StatusCode, body};
use cachalot_store::{Error, ErrorKind};
use serde_json::{Value, json};

use crate::url::{StoreUrl, StoreUrlError};

/// Largest response that is read, in bytes.
const LARGEST_RESPONSE: u64 = 64 << 20;

/// The variable with the host and port of an emulator.
const EMULATOR: &str = "FIRESTORE_EMULATOR_HOST";

/// A database, and the collection in it in which a store is.
pub struct Server {
    http: HttpClient,
    /// The URL of all requests, up to the method.
    endpoint: String,
    /// The path of all documents of the database.
    documents: String,
    collection: String,
    /// `None` for an emulator, which accepts everyone.
    credentials: Option<GoogleCredentials>,
    location: String,
}

impl Server {
    /// Reads a URL `firestore://PROJECT/COLLECTION`, with `?database=NAME` for another database than the default one.
    /// Takes credentials from the environment, as for `gs://`; `FIRESTORE_EMULATOR_HOST` names an emulator.
    ///
    /// # Errors
    /// A message without a secret.
    pub fn new(
        url: &StoreUrl,
        environment: &BTreeMap<String, String>,
        http: HttpClient,
    ) -> Result<Self, StoreUrlError> {
        let invalid = |fault| url.invalid(fault);
        url.check()?;
        let form = "write firestore://PROJECT/COLLECTION";
        let parsed = url::Url::parse(url.text()).map_err(|_| invalid(form))?;
        let project = parsed.host_str().filter(|project| !project.is_empty());
        let project = project.ok_or_else(|| invalid(form))?;
        let collection = parsed.path().trim_matches('/');
        if collection.is_empty() || collection.contains(['/', '%']) || collection.starts_with("__")
        {
            return Err(invalid(form));
        }
        if !parsed.username().is_empty() || parsed.port().is_some() {
            return Err(invalid("a user or a port has no meaning"));
        }
        let mut database = "(default)".to_owned();
        for (name, value) in parsed.query_pairs() {
            let is_name = |c: char| c.is_ascii_alphanumeric() || "-()".contains(c);
            match &*name {
                "database" if !value.is_empty() && value.chars().all(is_name) => {
                    database = value.into_owned();
                }
                _ => return Err(invalid("`database` is the only parameter")),
            }
        }
        let emulator = environment.get(EMULATOR).filter(|host| !host.is_empty());
        let (host, credentials) = match emulator {
            Some(host) => (format!("http://{host}"), None),
            None => {
                let credentials = GoogleCredentials::new(url.location(), environment, http.clone());
                let credentials =
                    credentials.map_err(|error| StoreUrlError::Invalid(error.to_string()))?;
                let host = "https://firestore.googleapis.com".to_owned();
                (host, Some(credentials))
            }
        };
        let documents = format!("projects/{project}/databases/{database}/documents");
        Ok(Self {
            http,
            endpoint: format!("{host}/v1"),
            documents,
            collection: collection.to_owned(),
            credentials,
            location: url.location().to_owned(),
        })
    }

    /// The URL without parameters.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Returns the path of a document or collection below the collection of the store.
    pub(super) fn path(&self, below: &str) -> String {
        format!("{}/{}/{below}", self.documents, self.collection)
    }

    /// Calls a method of the database, such as `commit`.
    pub(super) async fn call(&self, method: &str, content: &Value) -> Result<Value, Error> {
        self.call_at(&self.documents, method, content).await
    }

    /// Calls a method of the documents below `parent`, such as `runQuery`.
    pub(super) async fn call_at(
        &self,
        parent: &str,
        method: &str,
        content: &Value,
    ) -> Result<Value, Error> {
        let unreachable = |error: cachalot_storage::Error| {
            let kind = match error.kind {
                cachalot_storage::ErrorKind::Denied => ErrorKind::Denied,
                _ => ErrorKind::Unavailable,
            };
            Error::new(kind, format!("{} cannot be used: {error}", self.location))
        };
        let mut url = url::Url::parse(&self.endpoint).map_err(|_| self.damaged("no address"))?;
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(parent.split('/'));
        }
        let url = format!("{url}:{method}");
        let request = self.http.request(Method::POST, &url);
        let request = request.map_err(unreachable)?.json(content);
        let request = match &self.credentials {
            Some(credentials) => {
                request.bearer_auth(credentials.token().await.map_err(unreachable)?)
            }
            // An emulator checks the rules of the database for everyone else.
            None => request.bearer_auth("owner"),
        };
        let response = self.http.send(request).await.map_err(unreachable)?;
        let status = response.status();
        let bytes = body(response, LARGEST_RESPONSE).await;
        let bytes = bytes.map_err(unreachable)?;
        let answer = serde_json::from_slice(&bytes);
        if !status.is_success() {
            return Err(self.failure(method, status, &answer.unwrap_or_default()));
        }
        answer.map_err(|_| self.damaged("an answer that is not JSON"))
    }

    /// Executes writes in one step. Fails with [`ErrorKind::Busy`] if a condition of one of them does not hold.
    pub(super) async fn commit(
        &self,
        transaction: Option<&str>,
        writes: &[Value],
    ) -> Result<Vec<Value>, Error> {
        let mut content = json!({"writes": writes});
        if let Some(transaction) = transaction {
            content["transaction"] = transaction.into();
        }
        let mut answer = self.call("commit", &content).await?;
        match answer["writeResults"].take() {
            Value::Array(results) => Ok(results),
            _ => Ok(Vec::new()),
        }
    }

    /// Executes writes, each of which succeeds or fails on its own: only those fail whose conditions do not hold.
    pub(super) async fn write_each(&self, writes: &[Value]) -> Result<(), Error> {
        if writes.is_empty() {
            return Ok(());
        }
        let content = json!({"writes": writes});
        self.call("batchWrite", &content).await.map(drop)
    }

    fn failure(&self, method: &str, http: StatusCode, answer: &Value) -> Error {
        let error = match answer {
            Value::Array(parts) => parts.first().unwrap_or(answer),
            answer => answer,
        };
        let error = &error["error"];
        let status = error["status"].as_str().unwrap_or_default();
        let message = error["message"].as_str().unwrap_or("no message");
        let message: String = message.chars().take(300).collect();
        let location = &self.location;
        let is_conflict = match status {
            "ABORTED" => true,
            // The condition of a write does not hold.
            "ALREADY_EXISTS" | "FAILED_PRECONDITION" | "NOT_FOUND" => method == "commit",
            // The server ends transactions that take long, and some others; nothing was written.
            "INVALID_ARGUMENT" => {
                message.contains("transaction has expired")
                    || message.contains("Invalid transaction")
            }
            _ => false,
        };
        if is_conflict {
            let text = format!("{location} refused a change: {message} ({status})");
            return Error::new(ErrorKind::Busy, text);
        }
        match (status, http) {
            ("UNAUTHENTICATED" | "PERMISSION_DENIED", _)
            | (_, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => Error::new(
                ErrorKind::Denied,
                format!(
                    "{location} refused access: {message} ({http}); check the credentials, and that they have the role \
                     `roles/datastore.user`"
                ),
            ),
            ("RESOURCE_EXHAUSTED", _) => Error::new(
                ErrorKind::Unavailable,
                format!(
                    "{location} is over its quota or its rate limit: {message}; wait, or enable billing"
                ),
            ),
            ("INVALID_ARGUMENT", _) if message.contains("too big") => Error::new(
                ErrorKind::TooLarge,
                format!("{location} refused a change: {message}"),
            ),
            ("INVALID_ARGUMENT", _) => Error::new(
                ErrorKind::Unsupported,
                format!("{location} refused a request: {message}"),
            ),
            _ => Error::new(
                ErrorKind::Unavailable,
                format!("{location} answered {http}: {message}"),
            ),
        }
    }

    pub(super) fn damaged(&self, what: &str) -> Error {
        let message = format!("{} returned {what}", self.location);
        Error::new(ErrorKind::Corrupt, message)
    }

    /// Returns the parts of an answer of `batchGet`, `runQuery` or `runAggregationQuery`, and the time of the read in
    /// microseconds.
    pub(super) fn parts(&self, answer: Value) -> Result<(Vec<Value>, i64), Error> {
        let Value::Array(parts) = answer else {
            return Err(self.damaged("an answer that is no list"));
        };
        let failed = parts.iter().find(|part| part.get("error").is_some());
        if let Some(part) = failed {
            return Err(self.failure("read", StatusCode::OK, part));
        }
        let time = parts.iter().filter_map(|part| part["readTime"].as_str());
        let time = time.map(micros).max().flatten();
        let time = time.ok_or_else(|| self.damaged("no time"))?;
        Ok((parts, time))
    }
}

/// Converts a time of the API to microseconds.
fn micros(text: &str) -> Option<i64> {
    let time = chrono::DateTime::parse_from_rfc3339(text).ok()?;
    Some(time.timestamp_micros())
}
