//! Live traffic of many clients: requests one by one, as they are answered.

use std::sync::Arc;

use cachalot_core::{Digest, Millis, SecretSet};
use cachalot_model::{Catalog, Usage};

use super::conversations::Conversations;
use super::threads::OpenLimits;
use super::{LoggedRequest, Reason, envelope};
use crate::diagnosis::{CachedPrefix, ColdPrefix, Diagnosis, ProviderVerdict};
use crate::request::{Error, NormalForms, RequestPart};

/// Maximum length of the name of a session in bytes; a longer one is replaced by its digest.
const MAX_SESSION_BYTES: usize = 128;

/// Number of hex digits in the name of a conversation without a session, and in the digest of a long name.
const NAME_DIGITS: usize = 16;

/// A request of a client.
#[derive(Debug, Clone, Copy)]
pub struct LiveRequest<'a> {
    /// The client. Requests of different tenants are never compared.
    pub tenant: &'a str,
    /// The session, if it is named outside of the body; the body may name it, too.
    pub session: Option<&'a str>,
    /// The body.
    pub body: LiveBody<'a>,
    /// The time when it was sent.
    pub at: Millis,
}

/// The body of a request.
#[derive(Debug, Clone, Copy)]
pub enum LiveBody<'a> {
    /// Its text.
    Text(&'a [u8]),
    /// Its members, with what is known of the items of its lists.
    Parts(&'a [(&'a [u8], RequestPart<'a>)]),
}

/// Facts about the answer to a request.
#[derive(Debug, Clone, Default)]
pub struct LiveAnswer {
    /// The usage that it reports.
    pub usage: Option<Usage>,
    /// Its ID.
    pub id: Option<String>,
    /// The provider's comparison with an earlier request, if the client asked for one.
    pub verdict: Option<ProviderVerdict>,
}

/// The place of a request among the conversations of its tenant.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LivePlacement {
    /// The session, or a name that was made for the conversation.
    pub conversation: String,
    /// The digest of all pieces of the request, in the form in which they are compared.
    pub prefix: Digest,
    /// The comparison with the request before; `None` for the first request of a conversation.
    pub diagnosis: Option<Diagnosis>,
    /// The number of the conversation, until the next answer in it.
    pub number: u64,
    /// The number that the conversation had before this request.
    pub previous_number: Option<u64>,
    /// The prefix in the provider's cache after the answer.
    pub cached: Option<CachedPrefix>,
}

/// Recognizes the conversations of live traffic, and diagnoses their breaks.
///
/// Memory is bounded by [`OpenLimits`] and, independently of the traffic, by caches of less than 32 MiB. The least
/// recently used conversations are forgotten.
pub struct LiveAnalyzer {
    conversations: Conversations,
    forms: NormalForms,
    /// Distinguishes the names of conversations from those of other processes.
    process: String,
    requests: u64,
}

impl LiveAnalyzer {
    /// Creates an analyzer with the prices and limits of a catalog. Text known to `secret_set` is masked. `process`
    /// is a name that no other process has.
    #[must_use]
    pub fn new(
        catalog: Arc<Catalog>,
        secret_set: Arc<SecretSet>,
        limits: OpenLimits,
        process: &str,
    ) -> Self {
        Self {
            conversations: Conversations::new(catalog, secret_set, limits),
            forms: NormalForms::default(),
            process: process.to_owned(),
            requests: 0,
        }
    }

    /// Adds a request that was answered.
    ///
    /// # Errors
    /// The body is no request in a known format.
    pub fn take(
        &mut self,
        request: LiveRequest<'_>,
        answer: LiveAnswer,
    ) -> Result<LivePlacement, Error> {
        let read = self.read(request)?;
        self.requests += 1;
        let logged = LoggedRequest {
            line: self.requests,
            usage: answer.usage,
            answer: answer.id,
            verdict: answer.verdict.filter(|_| read.compared_with.is_some()),
            ..read
        };
        let prefix = logged.request.compared.prompt.tip();
        let cached = self.conversations.cached(&logged);
        let placed = self.conversations.take(logged);
        Ok(LivePlacement {
            conversation: placed
                .session
                .unwrap_or_else(|| self.name(placed.first_line)),
            prefix: prefix.map_or_else(|| Digest::sha256(b""), |tip| tip.0),
            previous_number: placed.previous.as_ref().map(|previous| previous.id),
            diagnosis: placed.previous.map(|previous| previous.diagnosis),
            number: self.conversations.newest(),
            cached,
        })
    }

    /// Notes that a request was sent, before it is answered: it has read the prefix of the conversation that it continues.
    /// Returns the number of that.
    ///
    /// # Errors
    /// The body is no request in a known format.
    pub fn begin(&mut self, request: LiveRequest<'_>) -> Result<Option<u64>, Error> {
        let read = self.read(request)?;
        Ok(self.conversations.note_sent(&read))
    }

    /// Notes that the prefix of a conversation was read by a request that is none of it, and thereby renewed. `number` is
    /// that of [`LivePlacement::number`].
    pub fn renew(&mut self, number: u64, at: Millis) {
        self.conversations.renew(number, at);
    }

    /// Returns the break that the last request of a conversation showed, if this request continues that request.
    ///
    /// # Errors
    /// The body is no request in a known format.
    pub fn last_break(&mut self, request: LiveRequest<'_>) -> Result<Option<&Diagnosis>, Error> {
        let read = self.read(request)?;
        Ok(self.conversations.last_break(&read))
    }

    /// Returns the conversation that a request continues, by a number that is valid until the next answer in it, and its
    /// prefix, if the provider's copy of that has expired before the request is sent.
    ///
    /// # Errors
    /// The body is no request in a known format.
    pub fn cold_prefix(
        &mut self,
        request: LiveRequest<'_>,
    ) -> Result<Option<(u64, ColdPrefix)>, Error> {
        let read = self.read(request)?;
        Ok(self.conversations.cold(&read))
    }

    fn read(&mut self, request: LiveRequest<'_>) -> Result<LoggedRequest, Error> {
        let read = match request.body {
            LiveBody::Text(text) => envelope::read_body(&mut self.forms, text),
            LiveBody::Parts(parts) => envelope::read_parts(parts),
        }
        .map_err(|reason| match reason {
            Reason::NotARequest(error) => error,
            // Only logs have these defects.
            Reason::Transcript(_) | Reason::TooLong | Reason::Unreadable(_) => {
                Error::NotARequest("it cannot be read")
            }
        })?;
        let session = request.session.filter(|session| !session.is_empty());
        Ok(LoggedRequest {
            tenant: Some(request.tenant.into()),
            at: Some(request.at),
            session: session.map(str::to_owned).or(read.session).map(shortened),
            failed: false,
            usage: None,
            answer: None,
            verdict: None,
            ..read
        })
    }

    /// Returns the name of a conversation without a session.
    fn name(&self, first_line: u64) -> String {
        let parts = [self.process.as_bytes(), &first_line.to_le_bytes()];
        Digest::sha256_of_parts(&parts).to_hex()[..NAME_DIGITS].to_owned()
    }
}

fn shortened(session: String) -> String {
    if session.len() > MAX_SESSION_BYTES {
        Digest::sha256(session.as_bytes()).to_hex()[..NAME_DIGITS].to_owned()
    } else {
        session
    }
}
