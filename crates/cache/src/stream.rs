//! Answers that are being produced, and the positions of their readers.
//!
//! An answer that may be stored keeps all its chunks, so that callers can join at any time. An answer that is not
//! stored any more is a pipe: no caller joins it, and a chunk is freed once all readers have read it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;

use crate::complete::CompleteBody;
use crate::reason::Failure;
use crate::sync::{Mutex, MutexGuard, lock, wait_until};

/// Number of unread bytes of the fastest reader of a pipe from which on its run waits: 1 MiB.
pub(crate) const PIPE_BYTES: u64 = 1 << 20;

/// An answer that is being produced.
#[derive(Default)]
pub(crate) struct StreamingBody {
    state: Mutex<StreamState>,
    changed: Notify,
    /// Signalled when a pipe may have room for further chunks.
    room_changed: Notify,
}

/// The state of an answer that is being produced.
#[derive(Default)]
pub(crate) struct StreamState {
    /// The chunks that are kept.
    chunks: VecDeque<Bytes>,
    /// Number of chunks before these, which were freed, and of their bytes.
    freed: usize,
    freed_bytes: u64,
    /// Number of bytes of all chunks.
    bytes: u64,
    readers: HashMap<ReaderId, Position>,
    /// The ID of the next reader.
    next_reader: u64,
    /// Number of readers that hold everything.
    holders: usize,
    /// Maximum number of bytes that the other readers have read.
    fastest: u64,
    pipe: Option<Pipe>,
    end: Option<StreamEnd>,
}

/// The state of a pipe.
struct Pipe {
    /// Maximum number of bytes that a reader may be behind.
    max_lag: u64,
    /// Number of readers that have not read the first chunk that is kept.
    at_first: usize,
}

/// Identifies a reader among those of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ReaderId(u64);

/// The chunks and bytes that a reader has read.
#[derive(Debug, Clone, Copy)]
struct Position {
    chunks: usize,
    bytes: u64,
    /// Set if the reader may still begin at the first byte: its position stays there.
    holds: bool,
    /// Number of bytes that the reader may be behind, if that is more than the limit: chunks that another reader held.
    allowance: u64,
}

#[derive(Clone)]
pub(crate) enum StreamEnd {
    Complete(Arc<CompleteBody>),
    /// Complete, and read in chunks that are not kept.
    Drained,
    Failed(Failure),
    /// Dropped before the first chunk: a waiting caller may lead.
    Vacant,
}

/// The next item of a reader.
pub(crate) enum Step {
    Chunk(Bytes),
    /// The end of the answer, which is in no chunk if it is given.
    End(Result<Option<Arc<CompleteBody>>, Failure>),
}

/// The result of adding a chunk.
pub(crate) struct Pushed {
    /// Number of bytes of the answer so far.
    pub(crate) bytes: u64,
    pub(crate) is_pipe: bool,
    pub(crate) has_readers: bool,
    /// Number of readers that were removed because they are too slow.
    pub(crate) removed: usize,
}

impl StreamState {
    fn pushed_chunks(&self) -> usize {
        self.freed + self.chunks.len()
    }

    fn push(&mut self, chunk: Bytes) -> Pushed {
        // Before the chunk is added: a reader that has read everything so far stays, however large the chunk is.
        let removed = self.remove_slow_readers();
        self.bytes += chunk.len() as u64;
        self.chunks.push_back(chunk);
        self.free_read_chunks();
        Pushed {
            bytes: self.bytes,
            is_pipe: self.pipe.is_some(),
            has_readers: !self.readers.is_empty(),
            removed,
        }
    }

    /// Removes the readers of a pipe that are too far behind. Returns their number.
    fn remove_slow_readers(&mut self) -> usize {
        let Some(pipe) = self.pipe.as_ref().filter(|_| self.holders == 0) else {
            return 0;
        };
        let (bytes, max_lag, before) = (self.bytes, pipe.max_lag, self.readers.len());
        // No reader is further behind than the chunks that are kept, so that most pushes skip the search.
        if bytes - self.freed_bytes > max_lag {
            self.readers
                .retain(|_, position| bytes - position.bytes <= max_lag.max(position.allowance));
            self.count_readers_at_first();
        }
        before - self.readers.len()
    }

    /// One reader less holds everything. If it was the last one, others may be far behind, and get the time to read
    /// what it held.
    fn remove_holder(&mut self) {
        self.holders -= 1;
        if self.holders == 0 && self.pipe.is_some() {
            for position in self.readers.values_mut() {
                position.allowance = self.bytes - position.bytes;
            }
        }
    }

    fn count_readers_at_first(&mut self) {
        if let Some(pipe) = &mut self.pipe {
            let readers = self.readers.values();
            pipe.at_first = readers.filter(|reader| reader.chunks <= self.freed).count();
        }
    }

    /// Frees the chunks of a pipe that all readers have read.
    fn free_read_chunks(&mut self) {
        if self.pipe.as_ref().is_none_or(|pipe| pipe.at_first > 0) {
            return;
        }
        let slowest = self.readers.values().map(|position| position.chunks).min();
        let slowest = slowest.unwrap_or_else(|| self.pushed_chunks());
        while self.freed < slowest
            && let Some(chunk) = self.chunks.pop_front()
        {
            self.freed += 1;
            self.freed_bytes += chunk.len() as u64;
        }
        self.count_readers_at_first();
    }

    /// One reader less has not read the first chunk.
    fn leave_first(&mut self) {
        if let Some(pipe) = &mut self.pipe {
            pipe.at_first -= 1;
        }
        self.free_read_chunks();
    }

    /// Returns the next item of a reader, if there is one.
    pub(crate) fn step(&mut self, id: ReaderId) -> Option<Step> {
        let (freed, max_lag) = (self.freed, self.max_lag());
        let too_slow = || Some(Step::End(Err(Failure::too_slow(max_lag))));
        let Some(position) = self.readers.get_mut(&id) else {
            return too_slow();
        };
        // A reader that was added to a pipe begins at the first chunk, which may be freed.
        let Some(at) = position.chunks.checked_sub(freed) else {
            return too_slow();
        };
        let Some(chunk) = self.chunks.get(at) else {
            let is_unread = position.chunks == 0;
            return self.end.clone().map(|end| Step::End(end.rest(is_unread)));
        };
        let chunk = chunk.clone();
        position.chunks += 1;
        position.bytes += chunk.len() as u64;
        // The allowance shrinks as the reader catches up, and does not grow again.
        position.allowance = position.allowance.min(self.bytes - position.bytes);
        self.fastest = self.fastest.max(position.bytes);
        if at == 0 {
            self.leave_first();
        }
        Some(Step::Chunk(chunk))
    }

    fn max_lag(&self) -> u64 {
        self.pipe.as_ref().map_or(u64::MAX, |pipe| pipe.max_lag)
    }

    /// True if a run may add a chunk without waiting.
    fn has_room(&self) -> bool {
        self.pipe.is_none()
            || self.end.is_some()
            || self.holders > 0
            || self.readers.is_empty()
            || self.bytes - self.fastest < PIPE_BYTES
    }

    /// Returns all chunks in one piece; `None` if some were freed.
    fn collected(&self) -> Option<Bytes> {
        if self.freed > 0 {
            return None;
        }
        Some(match (self.chunks.len(), self.chunks.front()) {
            (1, Some(only)) => only.clone(),
            _ => {
                let mut all = BytesMut::with_capacity(self.bytes as usize);
                let chunks = self.chunks.iter();
                chunks.for_each(|chunk| all.extend_from_slice(chunk));
                all.freeze()
            }
        })
    }
}

impl StreamingBody {
    fn state(&self) -> MutexGuard<'_, StreamState> {
        lock(&self.state)
    }

    /// Adds a chunk for every reader; never waits.
    pub(crate) fn push(&self, chunk: Bytes) -> Pushed {
        let pushed = self.state().push(chunk);
        self.changed.notify_waiters();
        // If no readers are left, the run need not wait for room.
        if pushed.removed > 0 {
            self.room_changed.notify_waiters();
        }
        pushed
    }

    /// Adds a reader that holds everything.
    pub(crate) fn add_reader(&self) -> ReaderId {
        let mut state = self.state();
        let id = ReaderId(state.next_reader);
        state.next_reader += 1;
        state.holders += 1;
        let position = Position {
            chunks: 0,
            bytes: 0,
            holds: true,
            allowance: 0,
        };
        state.readers.insert(id, position);
        if let Some(pipe) = &mut state.pipe {
            pipe.at_first += 1;
        }
        id
    }

    /// Lets a reader hold only the chunks that it has not read.
    pub(crate) fn stop_holding(&self, id: ReaderId) {
        let mut state = self.state();
        let position = state.readers.get_mut(&id);
        if let Some(position) = position.filter(|position| position.holds) {
            position.holds = false;
            state.remove_holder();
        }
    }

    /// Removes a reader; returns false if it was removed before, because it was too slow.
    pub(crate) fn remove_reader(&self, id: ReaderId) -> bool {
        let mut state = self.state();
        let Some(position) = state.readers.remove(&id) else {
            return false;
        };
        if position.holds {
            state.remove_holder();
        }
        if position.bytes == state.fastest {
            let bytes = state.readers.values().map(|position| position.bytes);
            state.fastest = bytes.max().unwrap_or_default();
        }
        if position.chunks <= state.freed {
            state.leave_first();
        }
        let is_pipe = state.pipe.is_some();
        drop(state);
        if is_pipe {
            self.room_changed.notify_waiters();
        }
        true
    }

    /// Turns the answer into a pipe whose readers may be at most this number of bytes behind, or [`PIPE_BYTES`] if
    /// that is more.
    pub(crate) fn become_pipe(&self, max_lag: u64) {
        let mut state = self.state();
        if state.pipe.is_none() {
            state.pipe = Some(Pipe {
                max_lag: max_lag.max(PIPE_BYTES),
                at_first: 0,
            });
            state.count_readers_at_first();
            state.free_read_chunks();
        }
    }

    pub(crate) fn is_pipe(&self) -> bool {
        self.state().pipe.is_some()
    }

    /// Waits until a chunk may be added.
    pub(crate) async fn room(&self) {
        let has_room = || self.state().has_room().then_some(());
        wait_until(&self.room_changed, has_room).await;
    }

    /// Number of bytes of the chunks that are kept.
    pub(crate) fn kept(&self) -> u64 {
        let state = self.state();
        state.bytes - state.freed_bytes
    }

    /// Number of bytes of all chunks, freed or not.
    pub(crate) fn bytes(&self) -> u64 {
        self.state().bytes
    }

    /// True if no chunk was ever added.
    pub(crate) fn is_empty(&self) -> bool {
        self.state().pushed_chunks() == 0
    }

    /// Ends the answer. Only the first call has an effect.
    pub(crate) fn end(&self, end: StreamEnd) {
        let mut state = self.state();
        if state.end.is_none() {
            state.end = Some(end);
        }
        drop(state);
        self.changed.notify_waiters();
        self.room_changed.notify_waiters();
    }

    /// Ends the answer with its `value`, or with the concatenation of its chunks. Returns the whole answer, unless it
    /// is in chunks that were freed, or that no reader needs in one piece.
    pub(crate) fn complete(&self, value: Option<Bytes>) -> Option<Bytes> {
        let state = self.state();
        // Freed chunks cannot be joined, and joining the others would take the memory that the pipe saves.
        let is_drained = state.pipe.is_some() && state.holders == 0 && state.pushed_chunks() > 0;
        let whole = if is_drained {
            None
        } else {
            value.or_else(|| state.collected())
        };
        drop(state);
        self.end(match &whole {
            Some(whole) => StreamEnd::Complete(CompleteBody::new(whole.clone())),
            None => StreamEnd::Drained,
        });
        whole
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state().end.is_some()
    }

    /// Waits until `ready` returns a value for the state.
    async fn wait_for<T>(&self, mut ready: impl FnMut(&mut StreamState) -> Option<T>) -> T {
        wait_until(&self.changed, || ready(&mut self.state())).await
    }

    /// Returns the next item of a reader.
    pub(crate) async fn next(&self, id: ReaderId) -> Step {
        let step = self.wait_for(|state| {
            let (fastest, has_pipe) = (state.fastest, state.pipe.is_some());
            let step = state.step(id)?;
            Some((step, has_pipe && state.fastest > fastest))
        });
        let (step, makes_room) = step.await;
        if makes_room {
            self.room_changed.notify_waiters();
        }
        step
    }

    /// Waits until there is something to read or the run has ended; false if it ended without an answer.
    pub(crate) async fn readable(&self) -> bool {
        self.wait_for(|state| match (&state.end, state.pushed_chunks()) {
            (Some(StreamEnd::Vacant), 0) => Some(false),
            (Some(_), _) | (None, 1..) => Some(true),
            (None, 0) => None,
        })
        .await
    }

    pub(crate) async fn whole(&self) -> Result<Arc<CompleteBody>, Failure> {
        self.wait_for(|state| match state.end.clone()? {
            StreamEnd::Complete(whole) => Some(Ok(whole)),
            StreamEnd::Drained => Some(Err(Failure::too_slow(state.max_lag()))),
            StreamEnd::Failed(failure) => Some(Err(failure)),
            StreamEnd::Vacant => Some(Err(Failure::dropped())),
        })
        .await
    }
}

impl StreamEnd {
    /// Returns the end for a reader of all chunks. An answer that was never emitted in chunks is one chunk.
    fn rest(self, is_unread: bool) -> Result<Option<Arc<CompleteBody>>, Failure> {
        match self {
            Self::Complete(whole) => Ok(Some(whole).filter(|_| is_unread)),
            Self::Drained => Ok(None),
            Self::Failed(failure) => Err(failure),
            Self::Vacant => Err(Failure::dropped()),
        }
    }
}
