//! Reads the body of a request, within limits for one body and for all bodies together.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error_body::ErrorBody;
use crate::header;
use crate::limits::Limits;

/// Bytes for which one permit stands.
const UNIT: usize = 1_024;

/// Room for the bodies of all requests.
pub(crate) struct BodyRoom {
    room: Arc<Semaphore>,
    limits: Limits,
}

/// A body, and its room until it is dropped.
pub(crate) struct RequestBody {
    pub(crate) bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl BodyRoom {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            room: Arc::new(Semaphore::new(limits.all_bodies_bytes / UNIT)),
            limits,
        }
    }

    /// Reads a body to its end.
    ///
    /// # Errors
    /// The response to a body that is too large, too slow or cut off.
    pub(crate) async fn read(
        &self,
        headers: &HeaderMap,
        incoming: Incoming,
    ) -> Result<RequestBody, ErrorBody> {
        let limit = self.limits.body_bytes;
        let announced = header::content_length(headers).map(usize::try_from);
        let announced = announced.map(|length| length.unwrap_or(usize::MAX));
        if announced.is_some_and(|length| length > limit) {
            return Err(too_large(limit));
        }
        let units =
            (announced.unwrap_or(limit) / UNIT + 1).min(self.limits.all_bodies_bytes / UNIT);
        let room = Arc::clone(&self.room).acquire_many_owned(units as u32);
        let room = tokio::time::timeout(self.limits.body_timeout, room).await;
        let Ok(Ok(room)) = room else {
            let message = "other requests take all memory for bodies";
            return Err(ErrorBody::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too_busy",
                message,
            ));
        };
        let collecting = Limited::new(incoming, limit).collect();
        match tokio::time::timeout(self.limits.body_timeout, collecting).await {
            Ok(Ok(collected)) => Ok(RequestBody {
                bytes: collected.to_bytes(),
                _room: room,
            }),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(limit)),
            Ok(Err(error)) => Err(ErrorBody::new(
                StatusCode::BAD_REQUEST,
                "malformed_body",
                format!("the body cannot be read: {error}"),
            )),
            Err(_) => Err(ErrorBody::new(
                StatusCode::REQUEST_TIMEOUT,
                "request_timeout",
                format!(
                    "the body did not arrive within {} s",
                    self.limits.body_timeout.as_secs()
                ),
            )),
        }
    }
}

fn too_large(limit: usize) -> ErrorBody {
    ErrorBody::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "request_too_large",
        format!("the body is longer than {limit} bytes"),
    )
}
