//! Removal: erases pieces that no session needs, see [`crate::store`].

use cachalot_core::Digest;
use cachalot_store::{Label, LabelMatch, PageRequest, Pages, Record, RecordFilter};

use crate::error::Error;
use crate::record::SessionRecord;
use crate::store::{
    DOOMED, ID, OPERATION_TIMEOUT, PARENT, PIECE, PIECES, SESSIONS, SessionStore, TIP, label,
};

/// The beginning of the keys of pins, which earlier versions stored.
const PIN: &str = "pin/";

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
    /// Erases the pieces up to the last one of a prompt that a session does not have any more.
    pub(crate) async fn erase_prompt(&self, id: &str, tip: Digest) -> Result<SweepReport, Error> {
        self.collect(id, tip.to_hex(), &[]).await
    }

    /// Erases the pins of a session that its record does not name, and the pieces that only they referred to.
    pub(crate) async fn erase_pins(&self, id: &str) -> Result<SweepReport, Error> {
        let prefix = format!("{PIN}{id}/");
        let filter = RecordFilter {
            prefix: &prefix,
            ..RecordFilter::default()
        };
        let page = PageRequest::first(u32::MAX);
        let pins = self.0.backend.find(PIECES, &filter, page);
        let mut pins = self.0.ask(id, "removing", pins).await?.records;
        if pins.is_empty() {
            return Ok(SweepReport::default());
        }
        if let Some(record) = self.0.head(id).await? {
            match SessionRecord::decode(&record.value) {
                Ok(saved) => pins.retain(|pin| pin.key != format!("{prefix}{:020}", saved.pin)),
                // The pin that the session needs is unknown.
                Err(_) => return Ok(SweepReport::default()),
            }
        }
        let keys: Vec<&str> = pins.iter().map(|pin| pin.key.as_str()).collect();
        let mut swept = SweepReport::default();
        for pin in &pins {
            if let Some(target) = label(pin, PARENT) {
                swept += self.collect(id, target.to_owned(), &keys).await?;
            }
            self.erase_exactly(id, &pin.key, &[]).await?;
        }
        Ok(swept)
    }

    /// Erases a piece if it is not needed, then the previous one, and so on. The pins in `void` do not need it.
    async fn collect(&self, id: &str, target: String, void: &[&str]) -> Result<SweepReport, Error> {
        let mut swept = SweepReport::default();
        let mut removal: Option<String> = None;
        let mut next = Some(target);
        while let Some(target) = next.take() {
            // A mark is a write, so a piece that is needed gets none.
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
            // Without a condition: a write that has stored the piece since it was read refers to it by now, which the
            // second check finds.
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

    /// True if a session, a piece, or a pin that is not in `void` refers to this piece.
    async fn needed(&self, id: &str, target: &str, void: &[&str]) -> Result<bool, Error> {
        let limit = u32::try_from(void.len()).unwrap_or(u32::MAX);
        // In this order: see `crate::store`.
        for (space, name, limit) in [(SESSIONS, TIP, 0), (PIECES, PARENT, limit)] {
            let labels = [LabelMatch::Is {
                name,
                value: target,
            }];
            let filter = RecordFilter {
                labels: &labels,
                ..RecordFilter::default()
            };
            let page = PageRequest::keys(limit.saturating_add(1));
            let found = self.0.backend.find(space, &filter, page);
            let found = self.0.ask(id, "removing", found).await?.records;
            if found.iter().any(|by| !void.contains(&by.key.as_str())) {
                return Ok(true);
            }
        }
        Ok(false)
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

    /// Erases the session's own record, and returns it.
    pub(crate) async fn erase_head(&self, id: &str) -> Result<Option<Record>, Error> {
        let exactly = [LabelMatch::Is {
            name: ID,
            value: id,
        }];
        let filter = RecordFilter {
            prefix: id,
            labels: &exactly,
            ..RecordFilter::default()
        };
        let page = PageRequest::first(1);
        let erased = self.0.backend.erase(SESSIONS, &filter, page);
        let mut erased = self.0.ask(id, "removing", erased).await?;
        Ok(erased.records.pop())
    }

    /// Erases the session with this name, and every piece that no other session needs; returns true if it existed.
    pub(crate) async fn remove(&self, id: &str) -> Result<bool, Error> {
        let removed = self.erase_head(id).await?;
        let saved = removed
            .as_ref()
            .map(|record| SessionRecord::decode(&record.value));
        if let Some(Ok(saved)) = saved {
            for tip in saved.replaced.into_iter().chain(saved.tip) {
                self.erase_prompt(id, tip.0).await?;
            }
        } else if let Some(tip) = removed.as_ref().and_then(|record| label(record, TIP)) {
            self.collect(id, tip.to_owned(), &[]).await?;
        }
        self.erase_pins(id).await?;
        Ok(removed.is_some())
    }

    /// Erases all pins and pieces that are not needed. The cost is proportional to the number of pieces.
    pub(crate) async fn sweep(&self) -> Result<SweepReport, Error> {
        let mut swept = SweepReport::default();
        let pins = self.keys(PIN).await?;
        let mut ids: Vec<&str> = pins.iter().filter_map(|key| id_of_pin(key)).collect();
        ids.dedup();
        for id in ids {
            swept += self.erase_pins(id).await?;
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
