//! Transactions over HTTP: one request each, with the statements and when to execute them (protocol Hrana 3,
//! <https://github.com/tursodatabase/libsql/blob/main/docs/HRANA_3_SPEC.md>).

use std::time::Duration;

use cachalot_storage::{HttpClient, Method, StatusCode, body};
use cachalot_store::{Error, ErrorKind};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::statement::{Rows, Statement, damaged};
use crate::url::{StoreUrl, StoreUrlError};

/// Largest response that is read, in bytes.
const LARGEST_RESPONSE: u64 = 64 << 20;

/// How often a transaction is repeated that has not begun because of others. The server itself waits for some seconds.
const MOST_REPETITIONS: u32 = 5;

/// The pause before a repetition.
const PAUSE: Duration = Duration::from_millis(20);

/// A server, and the token for it.
pub struct Server {
    http: HttpClient,
    /// The URL of requests.
    endpoint: String,
    token: Option<String>,
    location: String,
    /// Held during a request: transactions that wait for each other on the server try again after pauses, while one of
    /// this process would find it free.
    turn: Mutex<()>,
}

/// The result of a transaction.
pub(super) enum Outcome {
    /// All statements were executed and committed.
    Committed(Vec<Rows>),
    /// A check, which is the statement of this number, did not hold. Nothing was changed; the results of the statements
    /// before it.
    Failed(usize, Vec<Rows>),
}

/// Returns a statement that fails if a condition does not hold, by text that is not JSON.
pub(super) fn check(condition: &str) -> Statement {
    Statement::new(format!(
        "SELECT CASE WHEN {condition} THEN 1 ELSE json('') END"
    ))
}

impl Server {
    /// Reads a URL `libsql://HOST` or `https://HOST`, with `?tls=0` for a server without TLS; `token` is used if it has
    /// no parameter `authToken`.
    ///
    /// # Errors
    /// The URL is invalid.
    pub fn new(
        url: &StoreUrl,
        token: Option<&str>,
        http: HttpClient,
    ) -> Result<Self, StoreUrlError> {
        let invalid = |fault| url.invalid(fault);
        url.check()?;
        let parsed = url::Url::parse(url.text()).map_err(|_| invalid("write libsql://HOST"))?;
        let parameter = |name: &str| {
            let mut pairs = parsed.query_pairs();
            pairs.find_map(|(key, value)| (key == name).then(|| value.into_owned()))
        };
        let is_token = |token: &String| token.bytes().all(|byte| byte.is_ascii_graphic());
        if parameter("authToken").is_some_and(|token| !is_token(&token)) {
            return Err(invalid("the token has characters that no token has"));
        }
        let host = parsed.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| invalid("write libsql://HOST"))?;
        let scheme = match parameter("tls").as_deref() {
            Some("0") => "http",
            None | Some("1") => "https",
            Some(_) => return Err(invalid("`tls` is 0 or 1")),
        };
        let port = parsed
            .port()
            .map_or_else(String::new, |port| format!(":{port}"));
        let path = parsed.path().trim_end_matches('/');
        Ok(Self {
            http,
            endpoint: format!("{scheme}://{host}{port}{path}/v3/pipeline"),
            token: parameter("authToken").or_else(|| token.map(str::to_owned)),
            location: url.location().to_owned(),
            turn: Mutex::new(()),
        })
    }

    /// The URL without the token and the parameters.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Removes all records, counters and leases.
    ///
    /// # Errors
    /// If the server cannot be reached.
    #[cfg(feature = "testing")]
    pub async fn clear(&self) -> Result<(), Error> {
        for table in ["records", "counters", "leases"] {
            let delete = Statement::new(format!("DELETE FROM cachalot_{table}"));
            // The first test finds no tables.
            let _ = self.execute(&[&delete]).await;
        }
        Ok(())
    }

    /// Executes statements in one transaction, which a replica passes to the primary server. Repeats it if it has not
    /// begun because of others.
    pub(super) async fn execute(&self, statements: &[&Statement]) -> Result<Outcome, Error> {
        let _turn = self.turn.lock().await;
        for _ in 0..MOST_REPETITIONS {
            match self.execute_once(statements).await {
                Err(error) if error.kind == ErrorKind::Busy => {}
                done => return done,
            }
            tokio::time::sleep(PAUSE).await;
        }
        self.execute_once(statements).await
    }

    async fn execute_once(&self, statements: &[&Statement]) -> Result<Outcome, Error> {
        let ok = |step: usize| json!({"type": "ok", "step": step});
        let step = |statement: &Statement, condition: Value| json!({"stmt": statement.to_json(), "condition": condition});
        // With the write lock, the checks and the writes see one state.
        let begin = Statement::new("BEGIN IMMEDIATE");
        let mut steps = vec![json!({"stmt": begin.to_json()})];
        for (number, statement) in statements.iter().enumerate() {
            steps.push(step(statement, ok(number)));
        }
        let last = statements.len();
        steps.push(step(&Statement::new("COMMIT"), ok(last)));
        // A failed statement leaves the transaction open.
        let is_open =
            json!({"type": "and", "conds": [ok(0), {"type": "not", "cond": ok(last + 1)}]});
        steps.push(step(&Statement::new("ROLLBACK"), is_open));
        let request = json!({"requests": [
            {"type": "batch", "batch": {"steps": steps}},
            {"type": "close"},
        ]});
        let mut answer = self.send(&request).await?;
        let foreign = || damaged("an answer of another protocol");
        let result = answer.pointer_mut("/results/0").ok_or_else(foreign)?;
        if result["type"] == "error" {
            return Err(self.failure(&result["error"]));
        }
        let result = result.pointer_mut("/response/result").ok_or_else(foreign)?;
        let errors = result.get_mut("step_errors").map(Value::take);
        let errors = errors.unwrap_or_default();
        let results = result.get_mut("step_results").and_then(Value::as_array_mut);
        let results = results.ok_or_else(foreign)?;
        let fault = |step: usize| Some(&errors[step]).filter(|error| !error.is_null());
        let mut rows = Vec::new();
        for number in 0..last {
            if let Some(error) = fault(number + 1) {
                let is_check = error["message"]
                    .as_str()
                    .is_some_and(|text| text.contains("malformed JSON"));
                return if is_check {
                    Ok(Outcome::Failed(number, rows))
                } else {
                    Err(self.failure(error))
                };
            }
            if let Some(error) = fault(0) {
                return Err(self.failure(error));
            }
            rows.push(Rows::read(
                results.get_mut(number + 1).ok_or_else(foreign)?,
            )?);
        }
        match fault(last + 1) {
            Some(error) => Err(self.failure(error)),
            None if results.get(last + 1).is_none_or(Value::is_null) => Err(damaged("no result")),
            None => Ok(Outcome::Committed(rows)),
        }
    }

    async fn send(&self, content: &Value) -> Result<Value, Error> {
        let unreachable = |error: cachalot_storage::Error| {
            let message = format!("{} cannot be reached: {error}", self.location);
            Error::new(ErrorKind::Unavailable, message)
        };
        let request = self
            .http
            .request(Method::POST, &self.endpoint)
            .map_err(unreachable)?;
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let response = self
            .http
            .send(request.json(content))
            .await
            .map_err(unreachable)?;
        let status = response.status();
        let bytes = body(response, LARGEST_RESPONSE)
            .await
            .map_err(unreachable)?;
        if status.is_success() {
            return serde_json::from_slice(&bytes)
                .map_err(|_| damaged("an answer that is not JSON"));
        }
        let text = String::from_utf8_lossy(&bytes);
        let text: String = text.trim().chars().take(200).collect();
        let kind = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ErrorKind::Denied,
            _ => ErrorKind::Unavailable,
        };
        let message = match kind {
            ErrorKind::Denied => format!(
                "{} refused access ({status}: {text}); check the token and its permissions",
                self.location
            ),
            _ => format!("{} answered {status}: {text}", self.location),
        };
        Err(Error::new(kind, message))
    }

    fn failure(&self, error: &Value) -> Error {
        let code = error["code"].as_str().unwrap_or_default();
        let message = error["message"].as_str().unwrap_or("no message");
        let kind = match code {
            code if code.starts_with("SQLITE_BUSY") || code.starts_with("SQLITE_LOCKED") => {
                ErrorKind::Busy
            }
            "SQLITE_FULL" | "BLOCKED" => ErrorKind::Full,
            "SQLITE_AUTH" | "SQL_READ_BLOCKED" | "SQL_WRITE_BLOCKED" => ErrorKind::Denied,
            "SQLITE_NOMEM" | "SQLITE_TOOBIG" | "RESPONSE_TOO_LARGE" => ErrorKind::TooLarge,
            _ => ErrorKind::Unavailable,
        };
        Error::new(
            kind,
            format!("{} failed: {message} ({code})", self.location),
        )
    }
}
