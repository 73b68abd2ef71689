//! Removal: erases pieces that no session needs, see [`crate::store`].

use cachalot_store::{Label, LabelMatch, Lease, PageRequest, Pages, Record, RecordFilter};

use crate::error::{Error, ErrorKind};
use crate::record::SessionRecord;
use crate::store::{
    DOOMED, ID, LEASE_DURATION, OPERATION_TIMEOUT, PARENT, PIECE, PIECES, PIN, SESSIONS,
    SessionStore, label, pin_key,
};

/// The erased pieces that no session needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// The number of pieces.
    pub pieces: u64,
    /// Their total bytes.
    pub bytes: u64,
}

impl std::ops::AddAssign for SweepReport {
    fn add_assign(&mut self, other: Self) {
        self.pieces += other.pieces;
        self.bytes += other.bytes;
    }
}

/// The removal of what no session needs.
pub(crate) struct Removal<'a>(pub(crate) &'a SessionStore);

impl Removal<'_> {
    /// Erases the void pins of a session, and the pieces that only they held.
    pub(crate) async fn clear(&self, id: &str) -> Result<SweepReport, Error> {
        if self.0.pins(id, PageRequest::keys(1)).await?.is_empty() {
            return Ok(SweepReport::default());
        }
        let lease = self.0.reserve(id).await?;
        let void = self.void_pins(id, &lease).await;
        self.0.release(lease).await?;
        let void = void?;
        let keys: Vec<&str> = void.iter().map(|pin| pin.key.as_str()).collect();
        let mut swept = SweepReport::default();
        for pin in &void {
            if let Some(target) = label(pin, PARENT) {
                swept += self.collect(id, target.to_owned(), &keys).await?;
            }
            self.erase_exactly(id, &pin.key, &[]).await?;
        }
        Ok(swept)
    }

    /// The void pins; requires the session's lease.
    async fn void_pins(&self, id: &str, lease: &Lease) -> Result<Vec<Record>, Error> {
        let kept = match self.0.head(id).await? {
            None => None,
            Some(record) => match SessionRecord::decode(&record.value) {
                Ok(saved) => Some(pin_key(id, saved.pin)),
                // The pin that the session needs is unknown.
                Err(_) => return Ok(Vec::new()),
            },
        };
        let mut pins = self.0.pins(id, PageRequest::first(u32::MAX)).await?;
        let renewed = self.0.backend.renew(lease, LEASE_DURATION);
        if !self.0.ask(id, "writing", renewed).await? {
            return Ok(Vec::new());
        }
        pins.retain(|pin| Some(&pin.key) != kept.as_ref());
        Ok(pins)
    }

    /// Erases a piece if it is not needed, then the previous one, and so on. Pins in `void` do not count
    /// as a need.
    async fn collect(&self, id: &str, target: String, void: &[&str]) -> Result<SweepReport, Error> {
        let mut swept = SweepReport::default();
        let mut removal: Option<String> = None;
        let mut next = Some(target);
        while let Some(target) = next.take() {
            if self.needed(id, &target, void).await? {
                break;
            }
            let key = format!("{PIECE}{target}");
            let found = self.0.backend.get(PIECES, &key, &[]);
            let Some(mut record) = self.0.ask(id, "removing", found).await?.record else {
                break;
            };
            let removal = match &removal {
                Some(removal) => removal,
                None => removal.insert(self.0.number(id).await?.to_string()),
            };
            let (bytes, before) = (
                record.value.len(),
                label(&record, PARENT).map(str::to_owned),
            );
            record.labels.retain(|label| label.name != DOOMED);
            record.labels.push(Label::new(DOOMED, removal));
            let marked = self.0.backend.put(PIECES, record, None, &[]);
            self.0.ask(id, "removing", marked).await?;
            if self.needed(id, &target, void).await? {
                break;
            }
            let marked = LabelMatch::Is {
                name: DOOMED,
                value: removal,
            };
            if self.erase_exactly(id, &key, &[marked]).await? {
                swept += SweepReport {
                    pieces: 1,
                    bytes: bytes as u64,
                };
            }
            next = before;
        }
        Ok(swept)
    }

    /// True if a piece or a pin refers to this piece.
    async fn needed(&self, id: &str, target: &str, void: &[&str]) -> Result<bool, Error> {
        let named = [LabelMatch::Is {
            name: PARENT,
            value: target,
        }];
        let filter = RecordFilter {
            labels: &named,
            ..RecordFilter::default()
        };
        let limit = u32::try_from(void.len()).unwrap_or(u32::MAX);
        let page = PageRequest::keys(limit.saturating_add(1));
        let found = self.0.backend.find(PIECES, &filter, page);
        let found = self.0.ask(id, "removing", found).await?.records;
        Ok(found.iter().any(|by| !void.contains(&by.key.as_str())))
    }

    /// Erases the record with this key if it has these labels; returns true if it did. No key in
    /// [`PIECES`] is a prefix of another, so the prefix filter matches one record.
    async fn erase_exactly(
        &self,
        id: &str,
        key: &str,
        labels: &[LabelMatch<'_>],
    ) -> Result<bool, Error> {
        let filter = RecordFilter {
            prefix: key,
            labels,
            ..RecordFilter::default()
        };
        let erased = self.0.backend.erase(PIECES, &filter, PageRequest::keys(1));
        let erased = self.0.ask(id, "removing", erased).await?;
        Ok(!erased.records.is_empty())
    }

    /// Erases the session's own record, which also invalidates the lease of a current writer.
    pub(crate) async fn erase_head(&self, id: &str) -> Result<bool, Error> {
        let exactly = [LabelMatch::Is {
            name: ID,
            value: id,
        }];
        let filter = RecordFilter {
            prefix: id,
            labels: &exactly,
            ..RecordFilter::default()
        };
        let erased = self
            .0
            .backend
            .erase(SESSIONS, &filter, PageRequest::keys(1));
        let erased = self.0.ask(id, "removing", erased).await?;
        Ok(!erased.records.is_empty())
    }

    /// Clears all sessions, and erases all pieces that are not needed. The cost is proportional to the
    /// number of pieces.
    pub(crate) async fn sweep(&self) -> Result<SweepReport, Error> {
        let mut swept = SweepReport::default();
        let pins = self.keys(PIN).await?;
        let mut ids: Vec<&str> = pins.iter().filter_map(|key| id_of_pin(key)).collect();
        ids.dedup();
        for id in ids {
            match self.clear(id).await {
                Ok(cleared) => swept += cleared,
                // The current writer clears it.
                Err(error) if error.kind == ErrorKind::Busy => {}
                Err(error) => return Err(error),
            }
        }
        for key in self.keys(PIECE).await? {
            if let Some(target) = key.strip_prefix(PIECE) {
                swept += self.collect("", target.to_owned(), &[]).await?;
            }
        }
        Ok(swept)
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let filter = RecordFilter {
            prefix,
            ..RecordFilter::default()
        };
        let pages = Pages::new(&*self.0.backend, PIECES, filter, PageRequest::keys(512));
        let mut pages = pages.within(OPERATION_TIMEOUT);
        let mut keys: Vec<String> = Vec::new();
        while let Some(page) = pages
            .next()
            .await
            .map_err(|error| Error::store("", "sweeping the sessions", error))?
        {
            keys.extend(page.records.into_iter().map(|record| record.key));
        }
        Ok(keys)
    }
}

fn id_of_pin(key: &str) -> Option<&str> {
    key.strip_prefix(PIN)?.rsplit_once('/').map(|(id, _)| id)
}
