//! Encryption of the values of any store. Keys and labels stay readable: the store compares them.
//!
//! A value is AES-256-GCM under a key that is derived from a secret of the user, bound to its space and key. The nonce
//! is derived from the value, so that an equal value under one key has equal bytes: the store recognizes records that
//! do not change. What that reveals is that a value is the same as before.

mod without_secret;

pub use without_secret::StoreWithoutSecret;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::Secret;
use cachalot_store::{
    Error, ErrorKind, GetOrReserve, GetOrReserveResult, GetResult, Lease, PageRequest,
    PutAllResult, PutCondition, PutResult, Recall, Record, RecordFilter, RecordPage, ReserveResult,
    SpaceUsage, Store, StoreInfo, StoreReply, ValuePart, space,
};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::{digest, hkdf, hmac};

/// The beginning of an encrypted value: what it is, and the version of the format.
const HEADER: [u8; 4] = *b"ENC\x01";

/// Length of the part of a value that names its secret, in bytes.
const ID_LENGTH: usize = 8;

/// Bytes of an encrypted value beyond those of the value itself: header, secret, nonce, and tag.
const OVERHEAD: usize = HEADER.len() + ID_LENGTH + NONCE_LEN + 16;

/// The environment variable with the secrets of a store, and that of a file that contains them.
pub const SECRETS: &str = "CACHALOT_ENCRYPTION_KEY";
/// See [`SECRETS`].
pub const SECRETS_FILE: &str = "CACHALOT_ENCRYPTION_KEY_FILE";

/// The word among the secrets that permits values that are not encrypted.
const PLAIN: &str = "plain";

/// True if a value is encrypted; its beginning is enough.
#[must_use]
pub fn is_encrypted(value: &[u8]) -> bool {
    value.starts_with(&HEADER)
}

/// Bytes of the beginning of a value from which its [`State`] is known.
pub const STATE_LENGTH: u32 = (HEADER.len() + ID_LENGTH) as u32;

/// The secret that a value is encrypted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// The first one, which encrypts.
    Current,
    /// Another one that is given.
    Old,
    /// One that is not given.
    Unknown,
    /// None: the value is not encrypted.
    Plain,
}

/// Length of a secret, in bytes.
const SECRET_LENGTH: usize = 32;

/// The keys of one secret.
struct Keys {
    id: [u8; ID_LENGTH],
    value: LessSafeKey,
    nonce: hmac::Key,
}

/// The reason why secrets cannot be used. Contains none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretsError {
    /// There is no secret.
    #[error("there is no secret in it")]
    Missing,
    /// A secret has another form.
    #[error("a secret has 64 hex digits: `openssl rand -hex 32` makes one")]
    Form,
    /// The keys cannot be derived.
    #[error("the keys cannot be derived")]
    Derivation,
}

/// The secrets of a store: the first one encrypts, all of them decrypt.
pub struct Encryption {
    keys: Vec<Keys>,
    /// True if values that are not encrypted are read as they are.
    reads_plain: bool,
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encryption").finish_non_exhaustive()
    }
}

impl Encryption {
    /// Reads secrets of 64 hex digits each, separated by commas or white space. The word `plain` among them permits
    /// values that are not encrypted, until all of them are.
    ///
    /// # Errors
    /// There is no secret, or one has another form.
    pub fn parse(secrets: &Secret<String>) -> Result<Self, SecretsError> {
        let separators = |c: char| c == ',' || c.is_whitespace();
        let texts = secrets.expose().split(separators);
        let texts = texts.filter(|text| !text.is_empty());
        let (plain, texts): (Vec<_>, Vec<_>) = texts.partition(|text| *text == PLAIN);
        let keys = texts.into_iter().map(Keys::parse);
        let keys: Vec<Keys> = keys.collect::<Result<_, _>>()?;
        if keys.is_empty() {
            Err(SecretsError::Missing)
        } else {
            Ok(Self {
                keys,
                reads_plain: !plain.is_empty(),
            })
        }
    }

    /// Permits values that are not encrypted.
    #[must_use]
    pub fn with_plain_values(self) -> Self {
        Self {
            reads_plain: true,
            ..self
        }
    }

    /// Returns the secret that a value is encrypted with; its first [`STATE_LENGTH`] bytes are enough.
    #[must_use]
    pub fn state(&self, value: &[u8]) -> State {
        let Some(rest) = value.strip_prefix(&HEADER) else {
            return State::Plain;
        };
        let id = rest.get(..ID_LENGTH);
        match self.keys.iter().position(|keys| Some(&keys.id[..]) == id) {
            Some(0) => State::Current,
            Some(_) => State::Old,
            None => State::Unknown,
        }
    }

    /// Encrypts a stored value with the first secret: one that is not encrypted, or with another secret that is given.
    ///
    /// # Errors
    /// The secret of the value is not given, or the value is damaged.
    pub fn renewed(&self, space: &str, key: &str, value: &[u8]) -> Result<Bytes, Error> {
        match self.state(value) {
            State::Plain => self.encrypt(space, key, value),
            _ => self.encrypt(space, key, &self.decrypt(space, key, value)?),
        }
    }

    fn encrypt(&self, space: &str, key: &str, value: &[u8]) -> Result<Bytes, Error> {
        let keys = self.keys.first().ok_or_else(impossible)?;
        let context = context(space, key);
        let mut message = hmac::Context::with_key(&keys.nonce);
        message.update(&context);
        // With the lengths, no two triples of space, key and value give the same bytes.
        message.update(&(key.len() as u64).to_be_bytes());
        message.update(value);
        let tag = message.sign();
        let nonce = tag.as_ref()[..NONCE_LEN].to_vec();
        let mut bytes = Vec::with_capacity(value.len() + OVERHEAD);
        bytes.extend_from_slice(&HEADER);
        bytes.extend_from_slice(&keys.id);
        bytes.extend_from_slice(&nonce);
        let nonce = Nonce::try_assume_unique_for_key(&nonce).map_err(|_| impossible())?;
        let mut sealed = value.to_vec();
        keys.value
            .seal_in_place_append_tag(nonce, Aad::from(context), &mut sealed)
            .map_err(|_| impossible())?;
        bytes.extend_from_slice(&sealed);
        Ok(bytes.into())
    }

    fn decrypt(&self, space: &str, key: &str, bytes: &[u8]) -> Result<Bytes, Error> {
        let refused = |kind, what| Error::new(kind, format!("the record `{key:.80}` {what}"));
        if !is_encrypted(bytes) && self.reads_plain {
            return Ok(Bytes::copy_from_slice(bytes));
        }
        let Some(rest) = bytes
            .strip_prefix(&HEADER)
            .filter(|_| bytes.len() >= OVERHEAD)
        else {
            return Err(refused(
                ErrorKind::Corrupt,
                "is not encrypted: it was stored without a secret, or by another program; `cachalot cache encrypt` \
                 encrypts what was stored without one",
            ));
        };
        let (id, rest) = rest.split_at(ID_LENGTH);
        let (nonce, sealed) = rest.split_at(NONCE_LEN);
        let Some(keys) = self.keys.iter().find(|keys| keys.id == id) else {
            return Err(refused(ErrorKind::Denied, &not_given()));
        };
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| impossible())?;
        let mut sealed = sealed.to_vec();
        let opened = keys
            .value
            .open_in_place(nonce, Aad::from(context(space, key)), &mut sealed);
        match opened.map(|opened| opened.len()) {
            Ok(length) => {
                sealed.truncate(length);
                Ok(sealed.into())
            }
            Err(_) => Err(refused(
                ErrorKind::Corrupt,
                "is damaged, or belongs to another key",
            )),
        }
    }
}

impl Keys {
    fn parse(text: &str) -> Result<Self, SecretsError> {
        let secret = hex::decode(text)
            .ok()
            .filter(|secret| secret.len() == SECRET_LENGTH);
        let secret = secret.ok_or(SecretsError::Form)?;
        let failed = |_| SecretsError::Derivation;
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, b"cachalot").extract(&secret);
        let derive = |purpose: &[u8]| -> Result<[u8; 32], SecretsError> {
            let mut derived = [0; 32];
            secret
                .expand(&[purpose], hkdf::HKDF_SHA256)
                .and_then(|key| key.fill(&mut derived))
                .map_err(failed)?;
            Ok(derived)
        };
        let id = digest::digest(&digest::SHA256, &derive(b"id")?);
        let value = UnboundKey::new(&AES_256_GCM, &derive(b"value")?).map_err(failed)?;
        Ok(Self {
            id: id.as_ref()[..ID_LENGTH]
                .try_into()
                .map_err(|_| failed(ring::error::Unspecified))?,
            value: LessSafeKey::new(value),
            nonce: hmac::Key::new(hmac::HMAC_SHA256, &derive(b"nonce")?),
        })
    }
}

/// The context that a value is bound to: the length of the space's name, the space and the key.
fn context(space: &str, key: &str) -> Vec<u8> {
    let mut context = (space.len() as u64).to_be_bytes().to_vec();
    context.extend_from_slice(space.as_bytes());
    context.extend_from_slice(key.as_bytes());
    context
}

fn not_given() -> String {
    format!("was encrypted with a secret that is not given: add it to {SECRETS} or {SECRETS_FILE}")
}

fn impossible() -> Error {
    Error::new(ErrorKind::Unsupported, "a value cannot be encrypted")
}

/// A store whose values are encrypted. It has no full text search.
pub struct EncryptedStore {
    about: StoreInfo,
    inner: Arc<dyn Store>,
    encryption: Encryption,
}

impl EncryptedStore {
    /// Encrypts the values of a store.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, encryption: Encryption) -> Self {
        let mut about = inner.about().clone();
        about.largest_value = about.largest_value.saturating_sub(OVERHEAD as u64);
        Self {
            about,
            inner,
            encryption,
        }
    }

    fn encrypted(&self, space: &str, record: Record) -> Result<Record, Error> {
        let value = self.encryption.encrypt(space, &record.key, &record.value)?;
        Ok(Record { value, ..record })
    }

    fn decrypted(&self, space: &str, record: Record) -> Result<Record, Error> {
        let value = self.encryption.decrypt(space, &record.key, &record.value)?;
        Ok(Record { value, ..record })
    }

    /// Decrypts a record that is looked up or listed. A record of the cache that cannot be decrypted has no value: the
    /// cache takes it for a damaged one and replaces it. In other spaces it is an error.
    fn looked_up(&self, space: &str, record: Record) -> Result<Record, Error> {
        let value = match self.encryption.decrypt(space, &record.key, &record.value) {
            Err(_) if space == space::CACHE => Bytes::new(),
            decrypted => decrypted?,
        };
        Ok(Record { value, ..record })
    }

    fn result(&self, space: &str, mut found: GetResult) -> Result<GetResult, Error> {
        let record = found.record.map(|record| self.looked_up(space, record));
        found.record = record.transpose()?;
        Ok(found)
    }

    fn page(
        &self,
        space: &str,
        values: ValuePart,
        mut page: RecordPage,
    ) -> Result<RecordPage, Error> {
        for size in &mut page.sizes {
            *size = size.saturating_sub(OVERHEAD as u64);
        }
        let records = page.records.into_iter();
        page.records = match values {
            ValuePart::None => records.collect(),
            ValuePart::First(_) => records
                .map(|record| self.looked_up(space, record))
                .collect::<Result<_, _>>()?,
            // A caller that copies whole values would copy an empty one.
            ValuePart::All => records
                .map(|record| self.decrypted(space, record))
                .collect::<Result<_, _>>()?,
        };
        Ok(page)
    }
}

/// Fails with the error of a record that was found, and releases the lease, which the caller does not get.
fn refused<'a, T: Send + 'a>(
    store: &'a dyn Store,
    reserved: Option<ReserveResult>,
    error: Error,
) -> StoreReply<'a, T> {
    StoreReply::later(async move {
        if let Some(ReserveResult::Held(lease)) = reserved {
            let _ = store.release(lease).settle().await;
        }
        Err(error)
    })
}

/// Requests whole values, since a part of one cannot be decrypted.
fn whole(page: PageRequest<'_>) -> PageRequest<'_> {
    PageRequest {
        values: match page.values {
            ValuePart::None => ValuePart::None,
            ValuePart::First(_) | ValuePart::All => ValuePart::All,
        },
        ..page
    }
}

impl Store for EncryptedStore {
    cachalot_store::forward_to_store!(inner: reserve renew release add raise_to counters touch stamps inspect);

    fn about(&self) -> &StoreInfo {
        &self.about
    }

    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> StoreReply<'a, GetResult> {
        let found = self.inner.get(space, key, counters);
        found.and_then(move |found| StoreReply::Now(self.result(space, found)))
    }

    fn get_or_reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        request: GetOrReserve<'a>,
    ) -> StoreReply<'a, GetOrReserveResult> {
        let reply = self.inner.get_or_reserve(space, key, request);
        reply.and_then(move |GetOrReserveResult { found, reserved }| {
            match self.result(space, found) {
                Ok(found) => StoreReply::Now(Ok(GetOrReserveResult { found, reserved })),
                Err(error) => refused(self.inner.as_ref(), reserved, error),
            }
        })
    }

    fn put<'a>(
        &'a self,
        space: &'a str,
        record: Record,
        lease: Option<&'a Lease>,
        counters: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, PutResult> {
        let encrypted = StoreReply::Now(self.encrypted(space, record));
        encrypted.and_then(move |record| self.inner.put(space, record, lease, counters))
    }

    /// Two calls if there has to be a record: its bytes depend on the secret with which it was encrypted.
    fn put_all<'a>(
        &'a self,
        condition: PutCondition<'a>,
        records: Vec<(&'a str, Record)>,
    ) -> StoreReply<'a, PutAllResult> {
        let encrypted = records
            .into_iter()
            .map(|(space, record)| Ok((space, self.encrypted(space, record)?)))
            .collect::<Result<Vec<_>, Error>>();
        let encrypted = match encrypted {
            Ok(encrypted) => encrypted,
            Err(error) => return StoreReply::Now(Err(error)),
        };
        let Some(expected) = condition.value.clone() else {
            return self.inner.put_all(condition, encrypted);
        };
        StoreReply::later(async move {
            let (space, key) = (condition.space, condition.key);
            let found = self.inner.get(space, key, &[]).settle().await?;
            let found = found.record.map(|record| record.value);
            let is_expected = match &found {
                Some(value) => self.encryption.decrypt(space, key, value)? == expected,
                None => false,
            };
            let condition = PutCondition {
                // Bytes that no record has, so that a lease is told from a change.
                value: found.filter(|_| is_expected).or(Some(Bytes::new())),
                ..condition
            };
            self.inner.put_all(condition, encrypted).settle().await
        })
    }

    fn put_new<'a>(&'a self, space: &'a str, records: Vec<Record>) -> StoreReply<'a, Vec<bool>> {
        let encrypted = records
            .into_iter()
            .map(|record| self.encrypted(space, record));
        let encrypted = StoreReply::Now(encrypted.collect::<Result<Vec<_>, Error>>());
        encrypted.and_then(move |records| self.inner.put_new(space, records))
    }

    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        let found = self.inner.find(space, filter, whole(page));
        found.and_then(move |found| StoreReply::Now(self.page(space, page.values, found)))
    }

    /// Returns records without their values if one of them cannot be decrypted: it is erased nevertheless.
    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        let erased = self.inner.erase(space, filter, whole(page));
        erased.and_then(move |erased| {
            let mut bare = erased.clone();
            StoreReply::Now(self.page(space, page.values, erased).or_else(|_| {
                for record in &mut bare.records {
                    record.value = Bytes::new();
                }
                Ok(bare)
            }))
        })
    }

    fn amend<'a>(&'a self, space: &'a str, record: Record) -> StoreReply<'a, Option<u64>> {
        let encrypted = StoreReply::Now(self.encrypted(space, record));
        encrypted.and_then(move |record| self.inner.amend(space, record))
    }

    fn usage<'a>(&'a self, space: &'a str) -> StoreReply<'a, SpaceUsage> {
        self.inner.usage(space).and_then(|usage| {
            let overhead = usage.records.saturating_mul(OVERHEAD as u64);
            StoreReply::Now(Ok(SpaceUsage {
                bytes: usage.bytes.saturating_sub(overhead),
                ..usage
            }))
        })
    }

    /// The store cannot read what it contains.
    fn recall(&self) -> Option<&dyn Recall> {
        None
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../tests/unit/encrypted.rs"]
mod tests;
