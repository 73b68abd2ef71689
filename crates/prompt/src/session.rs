//! A session: a prompt that is saved before it is sent.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_core::{Digest, Millis};
use cachalot_model::wire::{Rendered, Wire};
use cachalot_model::{Message, SettingChanges, Usage};
use cachalot_store::PutAllResult;
use serde_json::{Map, Value};

use crate::chain::{Node, Prompt};
use crate::continuation::{BreakCause, PrefixBreak, divergence};
use crate::error::{Error, ErrorKind};
use crate::head::{SessionHead, SessionTotals};
use crate::hex_digest::HexDigest;
use crate::namespace::Namespace;
use crate::record::{EncodedPiece, SessionRecord};
use crate::removal::Removal;
use crate::store::{SessionStore, WriterWait};
use crate::tail::Tail;

/// A conversation, saved in a store as the bytes that are sent.
///
/// Once [`Session::append`] returns, the message is durable: every process that opens the session
/// afterwards has the identical prefix. An append that failed or was canceled is not part of this
/// session, and the next append replaces it. (It may have become durable; a process that opens the
/// session in between then sees it as the last message.)
///
/// Two open instances of the same session cannot interleave: the second one to make a change gets
/// [`ErrorKind::Conflict`], and nothing is written.
///
/// A session is the user's own record of the sent data and contains it unchanged, including secrets:
/// leaving them out would change the prefix. [`Session::holds_secrets`] reports if a known secret is in
/// it, for programs that show or export it.
pub struct Session {
    /// The metadata. Changes are saved with the next append or save; the name does not change.
    pub head: SessionHead,
    /// The conversation. May be replaced by a prompt made from it by appending; [`Session::save`] saves
    /// it.
    pub prompt: Prompt,
    /// The usage so far. Changes are saved with the next append or save.
    pub totals: SessionTotals,
    /// The usage of the last request: the length of the conversation. `None` if it is not known. Saved with the
    /// next append or save.
    pub last_usage: Option<Usage>,
    /// The cache-relevant parameters of the last request, to check if the next one continues it. Saved
    /// with the next append or save.
    pub namespace: Option<Namespace>,
    pub(crate) id: String,
    /// The prompt in the store.
    pub(crate) saved: Prompt,
    pub(crate) saved_at: Millis,
    /// The session's own record in the store, unless another writer changed it.
    pub(crate) record: Option<Bytes>,
    /// Records that may be in the store instead: the outcome of their writes is unknown.
    pub(crate) attempted: Vec<Bytes>,
    pub(crate) saves: u64,
    /// The last pieces of prompts that were replaced, until they are erased.
    pub(crate) replaced: Vec<Digest>,
    /// True until the pins that an earlier version stored are erased.
    pub(crate) has_pins: bool,
    pub(crate) instance: u64,
    pub(crate) holds_secrets: bool,
    pub(crate) store: Arc<SessionStore>,
}

/// The provider and model that a conversation continues with.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The provider's name.
    pub provider: &'a str,
    /// The model name, as its provider knows it.
    pub model: &'a str,
    /// The base URL, if it differs from the provider's default.
    pub base_url: Option<&'a str>,
    /// The tools, rendered for the provider.
    pub tools: &'a [Rendered],
    /// The system text, rendered for the provider.
    pub system: &'a [Rendered],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The new prompt begins with the saved one.
    Extend,
    /// The new prompt replaces the saved one.
    Replace,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("head", &self.head)
            .field("prompt", &self.prompt)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Appends a message, rendered as `pieces`, durably. Other changes (head, totals, namespace) are
    /// saved with it.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`], [`ErrorKind::Removed`], [`ErrorKind::TooLarge`], or an error of the
    /// store; the session is then unchanged.
    pub async fn append(
        &mut self,
        message: Arc<Message>,
        pieces: &[Rendered],
    ) -> Result<(), Error> {
        let longer = self.prompt.append(pieces, message);
        self.commit(longer, self.head.clone(), Change::Extend).await
    }

    /// Appends several messages, each rendered as pieces, atomically. `notes` replace those of the head.
    ///
    /// # Errors
    /// Those of [`Session::append`]; the session is then unchanged.
    pub async fn append_all(
        &mut self,
        messages: &[(Arc<Message>, Vec<Rendered>)],
        notes: Map<String, Value>,
    ) -> Result<(), Error> {
        let longer = with_all(self.prompt.clone(), messages);
        self.commit(longer, self.head_with(notes), Change::Extend)
            .await
    }

    fn head_with(&self, notes: Map<String, Value>) -> SessionHead {
        SessionHead {
            notes,
            ..self.head.clone()
        }
    }

    /// Saves all changes: the prompt (which may have been extended by several messages), head, totals
    /// and namespace.
    ///
    /// # Errors
    /// Those of [`Session::append`], and [`ErrorKind::NotAnExtension`].
    pub async fn save(&mut self) -> Result<(), Error> {
        self.commit(self.prompt.clone(), self.head.clone(), Change::Extend)
            .await
    }

    /// The end of the conversation: shows what has to be appended before it can be sent.
    #[must_use]
    pub fn tail(&self) -> Tail {
        Tail::from_prompt(&self.prompt)
    }

    /// The time of the last save, by any process.
    #[must_use]
    pub fn saved_at(&self) -> Millis {
        self.saved_at
    }

    /// True if a known secret was in the conversation when it was written.
    #[must_use]
    pub fn holds_secrets(&self) -> bool {
        self.holds_secrets
    }

    /// Renders the conversation again from its messages: for another format, provider or model, or with
    /// other tools or another system text. Saves the result, and returns the position at which it breaks
    /// the prefix that was sent before; `None` if it does not.
    ///
    /// Reasoning and other blocks that only another format can express stay in the messages. They are
    /// sent again if the conversation returns to that format.
    ///
    /// # Errors
    /// Those of [`Session::append`], and [`ErrorKind::Inexpressible`]; the session is then unchanged.
    pub async fn rerender(
        &mut self,
        wire: &dyn Wire,
        target: Target<'_>,
    ) -> Result<Option<PrefixBreak>, Error> {
        self.rerender_all(self.prompt.messages(), wire, target)
            .await
    }

    /// Like [`Session::rerender`], but with other messages, for targets that would refuse some of the
    /// session's own.
    ///
    /// # Errors
    /// Those of [`Session::rerender`].
    pub async fn rerender_as(
        &mut self,
        messages: Vec<Message>,
        wire: &dyn Wire,
        target: Target<'_>,
    ) -> Result<Option<PrefixBreak>, Error> {
        let messages = messages.into_iter().map(Arc::new).collect();
        self.rerender_all(messages, wire, target).await
    }

    async fn rerender_all(
        &mut self,
        messages: Vec<Arc<Message>>,
        wire: &dyn Wire,
        target: Target<'_>,
    ) -> Result<Option<PrefixBreak>, Error> {
        let mut prompt = Prompt::begin(target.tools, target.system);
        // The target has all tools.
        for message in messages.into_iter().map(SettingChanges::removed_from) {
            let pieces = wire
                .message(&message)
                .map_err(|error| self.inexpressible(wire, error))?;
            prompt = prompt.append(&pieces, message);
        }
        let mut head = self.head.clone();
        head.format = wire.format();
        head.provider = target.provider.to_owned();
        head.model = target.model.to_owned();
        head.base_url = target.base_url.map(str::to_owned);
        let broken = if uses_other_cache(&self.head, &head) {
            break_at_start(
                &self.prompt,
                BreakCause::Rerendered {
                    from: self.head.format,
                    to: head.format,
                },
            )
        } else {
            divergence(&self.prompt, &prompt)
        };
        self.commit(prompt, head, Change::Replace).await?;
        Ok(broken)
    }

    /// Removes all messages. The tools and the system text keep their bytes. `notes` replace those of
    /// the head in the same step.
    ///
    /// # Errors
    /// Those of [`Session::append`]; the session is then unchanged.
    pub async fn restart(&mut self, notes: Map<String, Value>) -> Result<(), Error> {
        self.shorten(self.prompt.frozen(), notes).await
    }

    /// Replaces the last `unsent` messages, which must never have been sent, by other messages, each
    /// rendered as pieces. Sent messages stay. `notes` replace those of the head in the same step.
    ///
    /// # Errors
    /// Those of [`Session::append`]; the session is then unchanged.
    pub async fn amend(
        &mut self,
        unsent: usize,
        messages: &[(Arc<Message>, Vec<Rendered>)],
        notes: Map<String, Value>,
    ) -> Result<(), Error> {
        let prompt = with_all(self.prompt.without_last(unsent), messages);
        self.commit(prompt, self.head_with(notes), Change::Replace)
            .await
    }

    /// Removes the last `messages` messages, sent or not. The pieces before them keep their bytes.
    /// `notes` replace those of the head in the same step.
    ///
    /// # Errors
    /// Those of [`Session::append`]; the session is then unchanged.
    pub async fn retract(
        &mut self,
        messages: usize,
        notes: Map<String, Value>,
    ) -> Result<(), Error> {
        self.shorten(self.prompt.without_last(messages), notes)
            .await
    }

    /// Replaces the prompt by a shorter one, whose length is not known.
    async fn shorten(&mut self, prompt: Prompt, notes: Map<String, Value>) -> Result<(), Error> {
        let head = self.head_with(notes);
        // Cleared before the write, which saves it, and restored if the write fails.
        let last_usage = self.last_usage.take();
        let shortened = self.commit(prompt, head, Change::Replace).await;
        if shortened.is_err() {
            self.last_usage = last_usage;
        }
        shortened
    }

    fn inexpressible(&self, wire: &dyn Wire, error: cachalot_model::Error) -> Error {
        let (id, format) = (&self.id, wire.format());
        let message = format!(
            "the session `{id}` cannot continue in the format {format:?}: {error}; continue with \
             its original provider, or begin a new session"
        );
        Error {
            source: Some(Arc::new(error)),
            ..Error::new(ErrorKind::Inexpressible, id, message)
        }
    }

    /// Writes the prompt and the head to the store in one step, then updates this session.
    pub(crate) async fn commit(
        &mut self,
        prompt: Prompt,
        head: SessionHead,
        change: Change,
    ) -> Result<(), Error> {
        // The store may have the prompt of an attempt, which may lack any piece of the saved prompt.
        let is_unsure = !self.attempted.is_empty();
        let (own, shared) = prompt.beyond(&self.saved);
        let is_extension = shared == self.saved.len();
        if change == Change::Extend && !is_extension {
            return Err(self.not_an_extension());
        }
        let own = match is_unsure {
            true => prompt.beyond(&Prompt::default()).0,
            // The last piece was not the last one before, or only a pin refers to it.
            false if own.is_empty() && (!is_extension || self.has_pins) => {
                prompt.last().into_iter().collect()
            }
            false => own,
        };
        let fresh = self.encoded(own)?;
        // Finds out which of the attempts the store has, because the write below expects that record.
        if is_unsure {
            self.check().await?;
        }
        if is_unsure || !is_extension {
            // The tips of attempts are listed, too: their pieces may be in the store.
            let before = self.record.iter().chain(&self.attempted);
            let tips = before.filter_map(|record| SessionRecord::decode(record).ok()?.tip);
            for HexDigest(tip) in tips {
                if !self.replaced.contains(&tip) {
                    self.replaced.push(tip);
                }
            }
        }
        let saved = self.saved(&prompt, head, &fresh);
        let record = saved.encode().map_err(|error| self.unwritable(error))?;
        let store = Arc::clone(&self.store);
        let mut wait = WriterWait::begin();
        loop {
            let expected = self.record.clone();
            // If this does not return, the outcome is unknown.
            self.attempted.push(record.clone());
            let stored = store.put(&saved, record.clone(), &fresh, expected).await?;
            self.attempted.pop();
            match stored {
                PutAllResult::Stored => break,
                PutAllResult::Busy { left } => wait.pause(&self.id, left).await?,
                // An earlier attempt may have been completed late.
                PutAllResult::Changed => {
                    // Fails if another process has changed the session, and continues if the record is one of this
                    // session's attempts.
                    self.check().await?;
                    wait.pause(&self.id, Duration::ZERO).await?;
                }
            }
        }
        // Only after the write: one that failed or was cancelled leaves the session as it was.
        self.attempted.clear();
        self.record = Some(record);
        self.saves = saved.saves;
        self.saved_at = saved.saved;
        self.holds_secrets = saved.holds_secrets;
        self.head = saved.head;
        self.saved = prompt.clone();
        self.prompt = prompt;
        // After the write: no piece is erased while the record refers to it.
        self.clean_up().await;
        Ok(())
    }

    /// Erases what the session does not have any more. After a failure, the next change tries again.
    async fn clean_up(&mut self) {
        let store = Arc::clone(&self.store);
        if self.has_pins && Removal(&store).erase_pins(&self.id).await.is_ok() {
            self.has_pins = false;
        }
        while let Some(tip) = self.replaced.last() {
            if Removal(&store).erase_prompt(&self.id, *tip).await.is_err() {
                break;
            }
            self.replaced.pop();
        }
    }

    fn encoded(&self, nodes: Vec<&Arc<Node>>) -> Result<Vec<EncodedPiece>, Error> {
        let pieces: Result<_, _> = nodes
            .into_iter()
            .map(|node| EncodedPiece::from_node(node))
            .collect();
        pieces.map_err(|error| self.unwritable(error))
    }

    fn not_an_extension(&self) -> Error {
        let id = &self.id;
        let message = format!(
            "the session `{id}` can only be appended to: the prompt does not begin with what is saved"
        );
        Error::new(ErrorKind::NotAnExtension, id, message)
    }

    fn unwritable(&self, error: serde_json::Error) -> Error {
        let id = &self.id;
        let message = format!("the session `{id}` cannot be written as JSON: {error}");
        Error {
            source: Some(Arc::new(error)),
            ..Error::new(ErrorKind::Inexpressible, id, message)
        }
    }

    fn saved(
        &self,
        prompt: &Prompt,
        mut head: SessionHead,
        fresh: &[EncodedPiece],
    ) -> SessionRecord {
        let secret_set = &self.store.secret_set;
        let secret = |piece: &EncodedPiece| secret_set.occurs_in(&piece.value);
        let holds_secrets =
            self.holds_secrets || (!secret_set.is_empty() && fresh.iter().any(secret));
        head.id.clone_from(&self.id);
        SessionRecord {
            head,
            tip: prompt.record().map(HexDigest),
            prompt: prompt.tip().map(|id| HexDigest(id.0)),
            replaced: self.replaced.iter().copied().map(HexDigest).collect(),
            pin: 0,
            instance: self.instance,
            pieces: prompt.len() as u64,
            messages: prompt.messages_count().into(),
            bytes: prompt.bytes(),
            totals: self.totals,
            last_usage: self.last_usage,
            namespace: self.namespace.clone(),
            holds_secrets,
            saves: self.saves + 1,
            saved: self.store.clock.now(),
        }
    }

    /// Checks that the store has the state that this session expects.
    async fn check(&mut self) -> Result<(), Error> {
        let found = self.store.head(&self.id).await?.map(|record| record.value);
        let id = &self.id;
        let (kind, message) = match (found, &self.record) {
            (None, None) => return Ok(()),
            (Some(found), Some(ours)) if found == *ours => return Ok(()),
            (Some(found), _) if self.attempted.contains(&found) => {
                self.record = Some(found);
                return Ok(());
            }
            (Some(_), None) => (
                ErrorKind::Exists,
                format!("there is a session `{id}` already: open it, or choose another name"),
            ),
            (None, Some(_)) => (
                ErrorKind::Removed,
                format!("the session `{id}` was removed after it was opened here"),
            ),
            (Some(_), Some(_)) => (
                ErrorKind::Conflict,
                format!(
                    "the session `{id}` was continued elsewhere after it was opened here; nothing \
                     was written: open it again"
                ),
            ),
        };
        Err(Error::new(kind, id, message))
    }
}

/// Appends messages to a prompt.
fn with_all(prompt: Prompt, messages: &[(Arc<Message>, Vec<Rendered>)]) -> Prompt {
    messages.iter().fold(prompt, |prompt, (message, pieces)| {
        prompt.append(pieces, Arc::clone(message))
    })
}

/// True if the target has another provider cache.
fn uses_other_cache(from: &SessionHead, to: &SessionHead) -> bool {
    (from.format, &from.provider, &from.model, &from.base_url)
        != (to.format, &to.provider, &to.model, &to.base_url)
}

/// Returns a break at the first piece; `None` if nothing was sent.
fn break_at_start(prompt: &Prompt, cause: BreakCause) -> Option<PrefixBreak> {
    let first = prompt.backwards().last()?;
    Some(PrefixBreak {
        level: first.level,
        index: 0,
        cause,
    })
}
