//! HTTP requests of builtins that only need the status.

use std::time::Duration;

use cachalot_storage::{HttpClient, Method, header, masked, success};

use crate::output::Fault;

/// Posts a body and waits for the response headers.
///
/// # Errors
/// A message that states the problem and the fix, without the secrets in the URL.
pub(super) async fn post(
    http: &HttpClient,
    url: &str,
    content_type: &str,
    body: Vec<u8>,
    limit: Duration,
) -> Result<(), Fault> {
    let request = http
        .request(Method::POST, url)
        .map_err(|error| Fault::new(error.to_string()))?
        .header(header::CONTENT_TYPE, content_type)
        .body(body);
    match tokio::time::timeout(limit, http.send(request)).await {
        Ok(answer) => answer
            .and_then(success)
            .map(|_| ())
            .map_err(|error| Fault::new(error.to_string())),
        Err(_) => Err(Fault::new(format!(
            "no answer within {limit:?} from `{}`; check the server",
            masked(url)
        ))),
    }
}
