//! The bytes of answers, complete or still growing.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;

use crate::decoded::{DecodeError, Decoded};
use crate::reason::Failure;
use crate::sync::{Mutex, MutexGuard, lock};

/// A complete answer.
pub(crate) struct CompleteBody {
    pub(crate) bytes: Bytes,
    decoded: OnceLock<Arc<dyn Any + Send + Sync>>,
    /// Held while a reader decodes, so that other readers wait for the result instead of decoding, too.
    decoding: Mutex<()>,
    /// Reserves space for a decoded form if the answer is kept in the front.
    reserve_space: OnceLock<ReserveSpace>,
}

/// Reserves space for a number of additional bytes; returns false if they do not fit.
type ReserveSpace = Box<dyn Fn(u64) -> bool + Send + Sync>;

impl CompleteBody {
    pub(crate) fn new(bytes: Bytes) -> Arc<Self> {
        Arc::new(Self {
            bytes,
            decoded: OnceLock::new(),
            decoding: Mutex::new(()),
            reserve_space: OnceLock::new(),
        })
    }

    /// Keeps a decoded form only if `reserve_space` returns true for its weight. Set once per answer.
    pub(crate) fn limit_decoded(
        &self,
        reserve_space: impl Fn(u64) -> bool + Send + Sync + 'static,
    ) {
        let _ = self.reserve_space.set(Box::new(reserve_space));
    }

    /// Returns the decoded form that all readers of the same type share.
    pub(crate) fn decode<T: Decoded>(
        &self,
        decode: fn(&[u8]) -> Result<T, DecodeError>,
    ) -> Result<Arc<T>, Failure> {
        if let Some(decoded) = self.decoded() {
            return Ok(decoded);
        }
        let _decoding = lock(&self.decoding);
        if let Some(decoded) = self.decoded() {
            return Ok(decoded);
        }
        let decoded = Arc::new(decode(&self.bytes).map_err(Failure::new)?);
        self.keep(&decoded);
        Ok(decoded)
    }

    fn decoded<T: Decoded>(&self) -> Option<Arc<T>> {
        Arc::clone(self.decoded.get()?).downcast().ok()
    }

    /// Keeps a decoded form for later readers, if there is none and it fits.
    fn keep<T: Decoded>(&self, decoded: &Arc<T>) {
        let vacant = self.decoded.get().is_none();
        if vacant
            && self
                .reserve_space
                .get()
                .is_none_or(|reserve_space| reserve_space(decoded.weight()))
        {
            let decoded: Arc<T> = Arc::clone(decoded);
            let _ = self.decoded.set(decoded);
        }
    }
}

/// An answer that is being produced.
#[derive(Default)]
pub(crate) struct StreamingBody {
    state: Mutex<StreamState>,
    changed: Notify,
}

/// The state of an answer that is being produced.
#[derive(Default)]
pub(crate) struct StreamState {
    pub(crate) chunks: Vec<Bytes>,
    bytes: u64,
    pub(crate) end: Option<StreamEnd>,
}

#[derive(Clone)]
pub(crate) enum StreamEnd {
    Complete(Arc<CompleteBody>),
    Failed(Failure),
    /// Dropped before the first chunk: a waiting caller may lead.
    Vacant,
}

impl StreamingBody {
    fn state(&self) -> MutexGuard<'_, StreamState> {
        lock(&self.state)
    }

    /// Adds a chunk for every reader; never waits. Returns the total number of bytes.
    pub(crate) fn push(&self, chunk: Bytes) -> u64 {
        let mut state = self.state();
        state.bytes += chunk.len() as u64;
        state.chunks.push(chunk);
        let bytes = state.bytes;
        drop(state);
        self.changed.notify_waiters();
        bytes
    }

    /// Returns all chunks so far in one piece.
    pub(crate) fn collected(&self) -> Bytes {
        let state = self.state();
        match state.chunks.as_slice() {
            [] => Bytes::new(),
            [only] => only.clone(),
            chunks => {
                let mut all = BytesMut::with_capacity(state.bytes as usize);
                chunks.iter().for_each(|chunk| all.extend_from_slice(chunk));
                all.freeze()
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state().chunks.is_empty()
    }

    /// Ends the answer. Only the first call has an effect.
    pub(crate) fn end(&self, end: StreamEnd) {
        let mut state = self.state();
        if state.end.is_none() {
            state.end = Some(end);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state().end.is_some()
    }

    /// Waits until `ready` returns a value for the state.
    pub(crate) async fn wait_for<T>(&self, mut ready: impl FnMut(&StreamState) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the state is read, so that no notification is missed in between.
            changed.as_mut().enable();
            if let Some(answer) = ready(&self.state()) {
                return answer;
            }
            changed.await;
        }
    }

    /// Waits until there is something to read or the run has ended; false if it ended without an answer.
    pub(crate) async fn readable(&self) -> bool {
        self.wait_for(|state| match (&state.end, state.chunks.is_empty()) {
            (Some(StreamEnd::Vacant), true) => Some(false),
            (Some(_), _) | (None, false) => Some(true),
            (None, true) => None,
        })
        .await
    }

    pub(crate) async fn whole(&self) -> Result<Arc<CompleteBody>, Failure> {
        self.wait_for(|state| state.end.clone().map(StreamEnd::into_complete))
            .await
    }
}

impl StreamEnd {
    pub(crate) fn into_complete(self) -> Result<Arc<CompleteBody>, Failure> {
        match self {
            Self::Complete(whole) => Ok(whole),
            Self::Failed(failure) => Err(failure),
            Self::Vacant => Err(Failure::dropped()),
        }
    }
}
