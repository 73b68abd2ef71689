//! Cassettes: a cache exported to one versioned JSON-lines file. Imported elsewhere and used with
//! [`CacheMode::Frozen`](crate::CacheMode::Frozen), it gives the same answers as the original.
//!
//! The first line is the head; every further line is an entry.

use std::collections::BTreeSet;
use std::io::{BufRead, Read, Write};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cachalot_core::clock::iso8601;
use cachalot_core::{Digest, DigestKey, Millis, Spend};
use cachalot_store::{Label, PageRequest, Pages, Record, RecordFilter, Store, space};
use serde::{Deserialize, Serialize};

use crate::decoded::DecodeError;
use crate::engine::Engine;
use crate::entry::{Entry, EntryHead, KIND_LABEL};
use crate::erase::erase_copies;
use crate::witness::Observed;
use crate::{CallKind, Key};

/// The version of the format.
pub const CASSETTE_VERSION: u32 = 1;

const NO_CASSETTE: &str = "not a cassette: the first line must contain `cachalot_cassette`";

/// The maximum length of the first line.
const MAX_HEADER_BYTES: u64 = 4 << 10;

/// The maximum length of a line: twice the largest record of a store, because escapes make a text longer.
const MAX_LINE_BYTES: u64 = 1 << 30;

/// The part of the first line that all versions have in common.
#[derive(Deserialize)]
struct Version {
    cachalot_cassette: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CassetteHeader {
    cachalot_cassette: u32,
    created: String,
    /// The key under which secrets were digested, if the user asked to include it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest_key: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CassetteEntry {
    #[serde(with = "crate::witness::hex_digest")]
    key: Digest,
    kind: CallKind,
    scope: String,
    name: String,
    created: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<Millis>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    domains: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    observed: Vec<Observed>,
    spent: Spend,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    sealed: bool,
    labels: Vec<Label>,
    /// The answer, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The answer, if it is not valid UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// The result of an export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ExportReport {
    /// Entries written.
    pub entries: u64,
    /// Entries that were skipped because their key contains a secret and the digest key is not included.
    pub left_out: u64,
}

/// The result of an import.
#[derive(Debug, Clone, Default)]
pub struct ImportReport {
    /// Entries stored.
    pub entries: u64,
    /// The digest key in the cassette, if any.
    pub digest_key: Option<DigestKey>,
}

/// The error of an export or import.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// The store failed.
    #[error("the store failed: {0}")]
    Store(#[from] cachalot_store::Error),
    /// The file failed.
    #[error("{0}")]
    File(#[from] std::io::Error),
    /// The file is not a cassette, or damaged.
    #[error("line {line}: {problem}")]
    Format {
        /// The line, from 1.
        line: u64,
        /// A description of the problem.
        problem: String,
    },
    /// The engine has no store.
    #[error("there is no store to export from or import into")]
    NoStore,
}

/// True if a file begins like a cassette, of any version. Reads a bounded part.
///
/// # Errors
/// The file cannot be read.
pub fn is_cassette(file: &mut dyn Read) -> std::io::Result<bool> {
    let mut start = Vec::new();
    file.take(MAX_HEADER_BYTES).read_to_end(&mut start)?;
    let line = start.split(|byte| *byte == b'\n').next();
    Ok(serde_json::from_slice::<Version>(line.unwrap_or_default()).is_ok())
}

/// Implements [`crate::Cache::export`] and, with keys, [`crate::Cache::export_selected`].
pub(crate) async fn export(
    engine: &Engine,
    to: &mut (dyn Write + Send),
    selected: Option<&BTreeSet<Key>>,
    digest_key: Option<&DigestKey>,
) -> Result<ExportReport, CassetteError> {
    let store = engine.access.store().map_err(|_| CassetteError::NoStore)?;
    let first = CassetteHeader {
        cachalot_cassette: CASSETTE_VERSION,
        created: iso8601(engine.access.clock.now()),
        digest_key: digest_key.map(|key| hex::encode(key.expose())),
    };
    write_line(to, &first)?;
    let mut export = Export {
        store: &**store,
        to,
        with_secrets: digest_key.is_some(),
        report: ExportReport::default(),
    };
    if let Some(keys) = selected {
        for key in keys {
            export.entry(&key.to_string()).await?;
        }
    } else {
        let filter = RecordFilter::default();
        let mut pages = Pages::new(&**store, space::CACHE, filter, PageRequest::keys(500));
        while let Some(page) = pages.next().await? {
            for listed in page.records {
                export.entry(&listed.key).await?;
            }
        }
    }
    export.to.flush()?;
    Ok(export.report)
}

/// An export in progress.
struct Export<'a> {
    store: &'a dyn Store,
    to: &'a mut (dyn Write + Send),
    /// Set if entries are written whose keys contain secrets.
    with_secrets: bool,
    report: ExportReport,
}

impl Export<'_> {
    /// Writes the entry under a key, if there is one. Entries are read one by one: all of them together may not fit into
    /// this process.
    async fn entry(&mut self, key: &str) -> Result<(), CassetteError> {
        let found = self.store.get(space::CACHE, key, &[]).settle().await?;
        // A record that cannot be decoded answers no call.
        let Some(Ok(entry)) = found.record.map(Entry::decode) else {
            return Ok(());
        };
        if entry.head.sealed && !self.with_secrets {
            self.report.left_out += 1;
        } else {
            write_line(self.to, &CassetteEntry::from_entry(entry))?;
            self.report.entries += 1;
        }
        Ok(())
    }
}

/// Implements [`crate::Cache::import`].
pub(crate) async fn import(
    engine: &Engine,
    from: &mut (dyn BufRead + Send),
) -> Result<ImportReport, CassetteError> {
    let store = engine.access.store().map_err(|_| CassetteError::NoStore)?;
    let mut imported = ImportReport::default();
    let mut text = Vec::new();
    let mut line = 0;
    loop {
        text.clear();
        line += 1;
        let fault = |DecodeError(problem)| CassetteError::Format { line, problem };
        let limit = match line {
            1 => MAX_HEADER_BYTES,
            _ => MAX_LINE_BYTES,
        };
        // One byte more than permitted shows that the line is too long.
        let read = (&mut *from).take(limit + 1).read_until(b'\n', &mut text)?;
        if read as u64 > limit {
            return Err(fault(DecodeError(match line {
                1 => NO_CASSETTE.to_owned(),
                _ => format!("the line is longer than {} MiB", limit >> 20),
            })));
        }
        match (read, line) {
            (0, 1) => return Err(fault(invalid("the file is empty"))),
            (0, _) => break,
            (_, 1) => imported.digest_key = parse_header(&text).map_err(fault)?,
            _ if text.trim_ascii().is_empty() => {}
            _ => {
                let record = parse_entry(&text).map_err(fault)?;
                store.put(space::CACHE, record, None, &[]).settle().await?;
                imported.entries += 1;
            }
        }
    }
    // They may have other answers.
    erase_copies(engine).await?;
    // Imported entries count towards the bounds.
    engine.eviction.evict().await;
    Ok(imported)
}

fn write_line(to: &mut (dyn Write + Send), line: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut *to, line)?;
    to.write_all(b"\n")
}

fn invalid(why: impl std::fmt::Display) -> DecodeError {
    DecodeError(why.to_string())
}

fn parse_header(text: &[u8]) -> Result<Option<DigestKey>, DecodeError> {
    let Version {
        cachalot_cassette: version,
    } = serde_json::from_slice(text).map_err(|_| DecodeError(NO_CASSETTE.to_owned()))?;
    if version > CASSETTE_VERSION {
        return Err(DecodeError(format!(
            "the cassette has version {version}, this cachalot reads up to {CASSETTE_VERSION}: update it"
        )));
    }
    let first: CassetteHeader = serde_json::from_slice(text)
        .map_err(|error| DecodeError(format!("not a cassette: {error}")))?;
    let key = first.digest_key.map(|text| {
        let mut bytes = [0; 32];
        hex::decode_to_slice(&text, &mut bytes).map(|()| DigestKey::new(bytes))
    });
    key.transpose()
        .map_err(|_| DecodeError("the digest key is not 64 hex digits".to_owned()))
}

fn parse_entry(text: &[u8]) -> Result<Record, DecodeError> {
    let line: CassetteEntry = serde_json::from_slice(text).map_err(invalid)?;
    line.into_record()
}

impl CassetteEntry {
    fn from_entry(entry: Entry) -> Self {
        let EntryHead {
            key,
            kind,
            scope,
            name,
            created,
            expires,
            epochs,
            // Replaced by `entry.observations`.
            observed: _,
            spent,
            sealed,
        } = Arc::unwrap_or_clone(entry.head);
        let (text, base64) = match std::str::from_utf8(&entry.body.bytes) {
            Ok(text) => (Some(text.to_owned()), None),
            Err(_) => (None, Some(BASE64.encode(&entry.body.bytes))),
        };
        Self {
            key,
            kind,
            scope,
            name,
            created,
            expires,
            domains: epochs.into_iter().map(|(counter, _)| counter).collect(),
            observed: entry.observations.current(),
            spent,
            sealed,
            labels: entry.labels.to_vec(),
            text,
            base64,
        }
    }

    fn into_record(self) -> Result<Record, DecodeError> {
        let answer = match (self.text, self.base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(text)) => BASE64.decode(text).map_err(invalid)?,
            _ => return Err(invalid("an entry has either `text` or `base64`")),
        };
        let head = EntryHead {
            key: self.key,
            kind: self.kind,
            scope: self.scope,
            name: self.name,
            created: self.created,
            expires: self.expires,
            // No counter ever reaches this value.
            epochs: self
                .domains
                .into_iter()
                .map(|counter| (counter, u64::MAX))
                .collect(),
            observed: self.observed,
            spent: self.spent,
            sealed: self.sealed,
        };
        let mut labels = self.labels;
        // Cassettes of earlier versions have no label of the kind. A repeated label is kept once.
        labels.push(Label::new(KIND_LABEL, head.kind.as_str()));
        Ok(Record {
            key: head.key.to_hex(),
            value: head.encode(&answer).map_err(invalid)?,
            labels,
            expires: self.expires,
            revision: 0,
            updated: 0,
        })
    }
}
