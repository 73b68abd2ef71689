//! Complete answers, and their decoded forms.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::decoded::{DecodeError, Decoded};
use crate::reason::Failure;
use crate::sync::{Mutex, lock};

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
        // Another reader may have decoded the answer while this one waited for the lock.
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
