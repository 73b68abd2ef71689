//! Reads the body of a request, within limits for one body and for all bodies together.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error_body::ErrorBody;
use crate::header;
use crate::limits::Limits;

/// Bytes for which one permit stands.
const UNIT: usize = 1_024;

/// Maximum size of a body for which a buffer is made at once, in bytes.
const MAX_EXPECTED: usize = 4 << 20;

/// Room for the bodies of all requests.
pub(crate) struct BodyRoom {
    room: Arc<Semaphore>,
    limits: Limits,
}

/// A body, and its room until all clones are dropped.
#[derive(Clone)]
pub(crate) struct RequestBody {
    pub(crate) bytes: Bytes,
    _room: Arc<OwnedSemaphorePermit>,
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
        let deadline = tokio::time::Instant::now() + self.limits.body_timeout;
        let expected = announced.unwrap_or_default().min(MAX_EXPECTED);
        // Takes addresses only: memory is taken for what arrives. Bodies of a conversation grow, and buffers of one size
        // take the place of each other.
        let expected = expected.next_power_of_two();
        let (mut incoming, mut received) = (incoming, BytesMut::with_capacity(expected));
        // Room is taken for what has arrived, so that clients that send nothing hold nothing.
        let mut room = self.take(1)?;
        loop {
            let frame = match tokio::time::timeout_at(deadline, incoming.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => break,
                Ok(Some(Err(error))) => {
                    return Err(ErrorBody::bad_request(
                        "malformed_body",
                        format!("the body cannot be read: {error}"),
                    ));
                }
                Err(_) => {
                    return Err(ErrorBody::new(
                        StatusCode::REQUEST_TIMEOUT,
                        "request_timeout",
                        format!(
                            "the body did not arrive within {} s",
                            self.limits.body_timeout.as_secs()
                        ),
                    ));
                }
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if received.len() + data.len() > limit {
                return Err(too_large(limit));
            }
            received.extend_from_slice(&data);
            // A buffer may be twice as large as its content.
            let needed = 2 * received.len() / UNIT + 1;
            if needed > room.num_permits() {
                room.merge(self.take(needed - room.num_permits())?);
            }
        }
        Ok(RequestBody {
            bytes: received.freeze(),
            _room: Arc::new(room),
        })
    }

    /// Takes room for the decompressed form of a body.
    ///
    /// # Errors
    /// The response to a client for which there is no room.
    pub(crate) fn room(&self, bytes: usize) -> Result<OwnedSemaphorePermit, ErrorBody> {
        self.take(bytes / UNIT + 1)
    }

    fn take(&self, units: usize) -> Result<OwnedSemaphorePermit, ErrorBody> {
        let room = Arc::clone(&self.room).try_acquire_many_owned(units as u32);
        room.map_err(|_| {
            ErrorBody::unavailable("too_busy", "other requests take all memory for bodies")
        })
    }
}

fn too_large(limit: usize) -> ErrorBody {
    ErrorBody::too_large(format!("the body is longer than {limit} bytes"))
}
