//! The layout of an entry in a store: a format byte, a checksum of all that follows, the length of the head,
//! the head, the answer.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use cachalot_core::{Digest, Millis, Spend};
use cachalot_store::{Label, Record};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use crate::complete::CompleteBody;
use crate::decoded::DecodeError;
use crate::summary::EntryProvenance;
use crate::witness::{ObservationSet, Observed};
use crate::{Call, CallKind, Key, Reason};

/// The format of new entries: its checksum is XXH3 with 128 bits. It detects damage; it does not protect
/// against forgery, for which the store's own access control is responsible.
const FORMAT: u8 = 3;

/// The format of entries of earlier versions: the same layout, with the first half of the SHA-256 digest as
/// checksum. Entries of any other format are misses.
const FORMAT_WITH_SHA256: u8 = 2;

/// Number of bytes of the checksum.
const CHECKSUM_LENGTH: usize = 16;

/// Offset of the length of the head.
const LENGTH_OFFSET: usize = 1 + CHECKSUM_LENGTH;

/// Offset of the head.
const HEAD_OFFSET: usize = LENGTH_OFFSET + 4;

/// The label with the name of the call.
pub(crate) const NAME_LABEL: &str = "name";

/// The label with the kind of the call. Entries of earlier versions have none.
pub(crate) const KIND_LABEL: &str = "kind";

/// The label with the name of the group that an entry belongs to.
pub(crate) const QUOTA_LABEL: &str = "share";

/// The metadata of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EntryHead {
    pub(crate) key: Digest,
    pub(crate) kind: CallKind,
    pub(crate) scope: String,
    pub(crate) name: String,
    pub(crate) created: Millis,
    pub(crate) expires: Option<Millis>,
    /// The domains' epochs before the work began.
    pub(crate) epochs: Vec<(String, u64)>,
    pub(crate) observed: Vec<Observed>,
    pub(crate) spent: Spend,
    /// Set if the key contains a secret, as its keyed digest.
    pub(crate) sealed: bool,
}

/// A decoded entry; its answer shares the bytes of the record.
pub(crate) struct Entry {
    /// Shared apart from the answer, which may be large, so that the ledger can keep it alone. Its
    /// `observed` is moved to `observations`.
    pub(crate) head: Arc<EntryHead>,
    pub(crate) labels: Arc<[Label]>,
    pub(crate) revision: u64,
    pub(crate) observations: Arc<ObservationSet>,
    pub(crate) body: Arc<CompleteBody>,
    /// The expiry of the record: that of the entry, or later if the entry is kept to be served stale.
    record_expires: Option<Millis>,
    /// The time when the record was stored.
    updated: Millis,
    /// The time of the last recorded use.
    pub(crate) used: AtomicI64,
    /// The length of the record's value, which contains the answer.
    stored: usize,
}

/// The tolerated difference between the clocks of two machines: 5 minutes.
const MAX_CLOCK_SKEW: Millis = 300_000;

impl EntryHead {
    /// True if the entry has expired. An entry with an expiry and a creation time in the future was stored
    /// under a wrong clock and would live too long, so it counts as expired, too.
    pub(crate) fn is_expired(&self, now: Millis) -> bool {
        self.expires.is_some_and(|expires| {
            now >= expires || self.created > now.saturating_add(MAX_CLOCK_SKEW)
        })
    }

    /// Returns true if the entry has expired, and less than `window` ago.
    pub(crate) fn is_stale_within(&self, window: Duration, now: Millis) -> bool {
        let window = Millis::try_from(window.as_millis()).unwrap_or(Millis::MAX);
        self.expires.is_some_and(|expires| {
            now >= expires
                && now.saturating_sub(expires) < window
                && self.created <= now.saturating_add(MAX_CLOCK_SKEW)
        })
    }

    /// Encodes the value of the record.
    pub(crate) fn encode(&self, answer: &[u8]) -> Result<Bytes, Reason> {
        let head = postcard::to_stdvec(self).map_err(|error| Reason::Damaged(error.to_string()))?;
        let length = u32::try_from(head.len())
            .map_err(|_| Reason::Declined("what it depends on is too long a list".to_owned()))?;
        let mut value = BytesMut::with_capacity(HEAD_OFFSET + head.len() + answer.len());
        value.put_u8(FORMAT);
        value.put_bytes(0, CHECKSUM_LENGTH);
        value.put_u32_le(length);
        value.put_slice(&head);
        value.put_slice(answer);
        // The checksum does not cover the format, which selects its algorithm.
        let checksum = fast_checksum(&value[LENGTH_OFFSET..]);
        value[1..LENGTH_OFFSET].copy_from_slice(&checksum);
        Ok(value.freeze())
    }

    /// Origin and age of an entry with this head.
    pub(crate) fn provenance(&self, labels: Arc<[Label]>, revision: u64) -> EntryProvenance {
        EntryProvenance {
            created: self.created,
            expires: self.expires,
            spent: self.spent,
            labels,
            revision,
        }
    }

    fn decode(value: &Bytes) -> Result<(Self, Bytes), DecodeError> {
        let damaged = |why: &str| DecodeError(why.to_owned());
        let cut_short = || damaged("it is cut short");
        let (&format, rest) = value
            .split_first()
            .ok_or_else(|| damaged("it is empty, or encrypted with another secret"))?;
        let checksum = match format {
            FORMAT => fast_checksum,
            FORMAT_WITH_SHA256 => sha256_checksum,
            _ => {
                return Err(DecodeError(format!(
                    "its format is {format}, this version reads {FORMAT_WITH_SHA256} and {FORMAT}"
                )));
            }
        };
        let (stored_checksum, sealed) = rest
            .split_first_chunk::<CHECKSUM_LENGTH>()
            .ok_or_else(cut_short)?;
        // Before anything is decoded, so that damage is never taken for content.
        if checksum(sealed) != *stored_checksum {
            return Err(damaged("its bytes are not those that were stored"));
        }
        let (length, rest) = sealed.split_first_chunk::<4>().ok_or_else(cut_short)?;
        let length = u32::from_le_bytes(*length) as usize;
        let head = rest.get(..length).ok_or_else(cut_short)?;
        let head = postcard::from_bytes(head).map_err(|error| DecodeError(error.to_string()))?;
        Ok((head, value.slice(HEAD_OFFSET + length..)))
    }
}

/// The result of reading the head from the beginning of a value.
pub(crate) enum PartialHead {
    /// The head, and the size of the answer behind it.
    Complete(Box<EntryHead>, u64),
    /// The head is longer than the given part of the value.
    Truncated,
    /// The head cannot be decoded.
    Damaged,
}

impl PartialHead {
    /// Reads the head of a value of `size` bytes from its beginning. The checksum covers the whole value, so
    /// it is not checked.
    pub(crate) fn decode(beginning: &[u8], size: u64) -> Self {
        let read = || {
            let length = beginning.get(LENGTH_OFFSET..HEAD_OFFSET)?.try_into().ok()?;
            let end = HEAD_OFFSET + u32::from_le_bytes(length) as usize;
            let answer = size.checked_sub(end as u64)?;
            Some((end, answer))
        };
        match read() {
            _ if !matches!(beginning.first(), Some(&(FORMAT | FORMAT_WITH_SHA256))) => {
                Self::Damaged
            }
            None => Self::Damaged,
            Some((end, answer)) => match beginning.get(HEAD_OFFSET..end) {
                None => Self::Truncated,
                Some(head) => match postcard::from_bytes(head) {
                    Ok(head) => Self::Complete(Box::new(head), answer),
                    Err(_) => Self::Damaged,
                },
            },
        }
    }
}

fn fast_checksum(bytes: &[u8]) -> [u8; CHECKSUM_LENGTH] {
    XxHash3_128::oneshot(bytes).to_le_bytes()
}

fn sha256_checksum(bytes: &[u8]) -> [u8; CHECKSUM_LENGTH] {
    let mut checksum = [0; CHECKSUM_LENGTH];
    checksum.copy_from_slice(&Digest::sha256(bytes).as_bytes()[..CHECKSUM_LENGTH]);
    checksum
}

impl Entry {
    /// Decodes a record and checks that it is stored under its own key.
    pub(crate) fn decode(record: Record) -> Result<Self, Reason> {
        let (mut head, answer) =
            EntryHead::decode(&record.value).map_err(|error| Reason::Damaged(error.0))?;
        if *Key::from_digest(head.key).text() != *record.key {
            return Err(other_call());
        }
        Ok(Self {
            observations: ObservationSet::new(std::mem::take(&mut head.observed)),
            stored: record.value.len(),
            body: CompleteBody::new(answer),
            labels: record.labels.into(),
            revision: record.revision,
            record_expires: record.expires,
            updated: record.updated,
            used: AtomicI64::new(record.updated),
            head: Arc::new(head),
        })
    }

    /// Decodes a record and checks that it answers exactly this call.
    pub(crate) fn decode_for(record: Record, key: &Key, call: &Call<'_>) -> Result<Self, Reason> {
        let entry = Self::decode(record)?;
        let head = &entry.head;
        // The record is under the key of the call. Kind, name and scope are compared, too, in case it was stored there
        // by mistake.
        let same = head.key == key.digest()
            && head.kind == call.kind
            && head.name == call.name
            && scope_matches(&head.scope, call.scope);
        if same { Ok(entry) } else { Err(other_call()) }
    }

    pub(crate) fn provenance(&self) -> EntryProvenance {
        self.head
            .provenance(Arc::clone(&self.labels), self.revision)
    }

    /// The record that the entry was read from, with the latest statuses of its files.
    pub(crate) fn updated_record(&self) -> Result<Record, Reason> {
        let head = EntryHead {
            observed: self.observations.current(),
            ..EntryHead::clone(&self.head)
        };
        Ok(Record {
            key: Key::from_digest(head.key).to_string(),
            value: head.encode(&self.body.bytes)?,
            labels: self.labels.to_vec(),
            expires: self.record_expires,
            revision: self.revision,
            updated: self.updated,
        })
    }

    /// True if skipping the reads of its files is worth rewriting the record.
    pub(crate) fn is_worth_updating(&self) -> bool {
        const SMALL: u64 = 1 << 20;
        let bytes = self.stored as u64;
        bytes <= SMALL || bytes <= self.observations.size()
    }

    /// The approximate size in memory in bytes, without the decoded form.
    pub(crate) fn weight(&self) -> u64 {
        /// The structures themselves, and the overhead of their allocations.
        const FIXED: usize = 512;
        let label = |label: &Label| label.name.len() + label.value.len() + size_of::<Label>();
        let labels: usize = self.labels.iter().map(label).sum();
        let epoch = |(counter, _): &(String, u64)| counter.len() + size_of::<(String, u64)>();
        let epochs: usize = self.head.epochs.iter().map(epoch).sum();
        let head = self.head.scope.len() + self.head.name.len() + epochs;
        self.observations.weight() + (self.stored + labels + head + FIXED) as u64
    }
}

fn other_call() -> Reason {
    Reason::Damaged("it belongs to another call".to_owned())
}

/// Compares without building the scope's text.
fn scope_matches(text: &str, scope: &crate::Scope) -> bool {
    match scope.parts() {
        (sharing, "") => text == sharing,
        (sharing, owner) => text
            .strip_prefix(sharing)
            .and_then(|rest| rest.strip_prefix(':'))
            .is_some_and(|rest| rest == owner),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Scope;

    #[test]
    fn entry_round_trips_and_damage_is_detected() {
        let head = head();
        let value = head.encode(b"answer").unwrap();
        read_back_and_damage(&head, &value);
        let mut unknown = value.to_vec();
        unknown[0] = 9;
        assert!(
            EntryHead::decode(&unknown.into())
                .unwrap_err()
                .0
                .contains("format is 9")
        );
        // The format is not covered by the checksum: the other one's checksum does not match.
        let mut other = value.to_vec();
        other[0] = FORMAT_WITH_SHA256;
        assert!(EntryHead::decode(&other.into()).is_err());
    }

    /// [`head`] with the answer `answer`, as version 0.1 stored it.
    const EARLIER_ENTRY: &str = "020d3543d9e3ba84f1c8bd00370a540ef3440000002c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a\
        1dc30e73f826b68300076167656e743a61016e0a0112010765706f63683a6403000100c09fab03000000000161\
        6e73776572";

    #[test]
    fn an_entry_with_a_sha256_checksum_is_read_and_checked() {
        let value = Bytes::from(hex::decode(EARLIER_ENTRY).unwrap());
        assert_eq!(value[0], FORMAT_WITH_SHA256);
        read_back_and_damage(&head(), &value);
    }

    fn head() -> EntryHead {
        EntryHead {
            key: Digest::sha256(b"key"),
            kind: CallKind::Action,
            scope: "agent:a".into(),
            name: "n".into(),
            created: 5,
            expires: Some(9),
            epochs: vec![("epoch:d".into(), 3)],
            observed: vec![],
            spent: Spend::for_call(std::time::Duration::from_millis(7)),
            sealed: true,
        }
    }

    fn read_back_and_damage(head: &EntryHead, value: &Bytes) {
        let (again, answer) = EntryHead::decode(value).unwrap();
        assert_eq!((&again, &answer[..]), (head, &b"answer"[..]));
        for cut in 0..value.len() {
            assert!(
                EntryHead::decode(&value.slice(..cut)).is_err(),
                "cut at {cut}"
            );
        }
        for at in 1..value.len() {
            let mut other = value.to_vec();
            other[at] ^= 1;
            assert!(EntryHead::decode(&other.into()).is_err(), "changed at {at}");
        }
        for end in HEAD_OFFSET..value.len() - 6 {
            let peeked = PartialHead::decode(&value[..end], value.len() as u64);
            assert!(matches!(peeked, PartialHead::Truncated), "{end}");
        }
        for end in value.len() - 6..=value.len() {
            let peeked = PartialHead::decode(&value[..end], value.len() as u64);
            assert!(
                matches!(peeked, PartialHead::Complete(peeked, 6) if *peeked == *head),
                "{end}"
            );
        }
        for end in 0..HEAD_OFFSET {
            assert!(matches!(
                PartialHead::decode(&value[..end], end as u64),
                PartialHead::Damaged
            ));
        }
    }

    #[test]
    fn scopes_have_different_keys() {
        assert!(scope_matches("agent:a", &Scope::Agent("a".into())));
        assert!(!scope_matches("agent:a", &Scope::User("a".into())));
        assert!(!scope_matches("agent:ab", &Scope::Agent("a".into())));
        assert!(scope_matches("global", &Scope::Global));
        for scope in [
            Scope::Run("x:y".into()),
            Scope::Agent(String::new()),
            Scope::Global,
        ] {
            assert!(scope_matches(&scope.to_string(), &scope));
        }
    }
}
