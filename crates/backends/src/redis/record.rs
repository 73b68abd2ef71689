//! Conversion of values to arguments, and of replies to results. The layout of a record is described in `store.lua`.

use bytes::{BufMut as _, Bytes};
use cachalot_store::implementation::too_new;
use cachalot_store::{Error, ErrorKind, Label, Millis, Record};
use redis::Value;

/// The version of the layout.
pub(super) const VERSION: u8 = 1;

/// The key of the version of the layout, not in a cluster.
pub(super) const LAYOUT: &str = "cachalot:layout";

/// The code of the error of a script that finds a newer layout.
pub(super) const TOO_NEW: &str = "TOONEW";

/// Fails if a version of the layout, or none, is that of a newer version of Cachalot.
pub(super) fn check_layout(version: Value, location: &str) -> Result<(), Error> {
    if count(version)? > VERSION.into() {
        Err(too_new(location))
    } else {
        Ok(())
    }
}

/// Error for data that Cachalot did not write.
pub(super) fn damaged(what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("the Redis server returned {what} that is not Cachalot's"),
    )
}

pub(super) fn array(value: Value) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(values) => Ok(values),
        _ => Err(damaged("a reply")),
    }
}

pub(super) fn bytes(value: Value) -> Result<Vec<u8>, Error> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(damaged("a reply")),
    }
}

pub(super) fn text(value: Value) -> Result<String, Error> {
    String::from_utf8(bytes(value)?).map_err(|_| damaged("a name"))
}

pub(super) fn integer(value: Value) -> Result<i64, Error> {
    match value {
        Value::Int(number) => Ok(number),
        other => {
            let text = text(other)?;
            text.parse().map_err(|_| damaged("a number"))
        }
    }
}

pub(super) fn unsigned(value: i64) -> Result<u64, Error> {
    u64::try_from(value).map_err(|_| damaged("a negative count"))
}

/// Reads a counter, which is 0 if it does not exist.
pub(super) fn count(value: Value) -> Result<u64, Error> {
    match value {
        Value::Nil => Ok(0),
        other => unsigned(integer(other)?),
    }
}

/// Reads the reply to `TIME`, in milliseconds.
pub(super) fn time(value: Value) -> Result<Millis, Error> {
    let mut parts = array(value)?.into_iter().map(integer);
    let mut next = || parts.next().unwrap_or_else(|| Err(damaged("a time")));
    Ok(next()? * 1000 + next()? / 1000)
}

/// Reads the number of a space's incarnation; `None` if the space was not used with the server of this identity.
pub(super) fn incarnation(value: Option<Value>, identity: &str) -> Result<Option<u64>, Error> {
    let Some(value) = value.filter(|value| *value != Value::Nil) else {
        return Ok(None);
    };
    let text = text(value)?;
    let (number, last) = text.split_once(' ').unwrap_or_default();
    let number = number.parse().map_err(|_| damaged("an incarnation"))?;
    Ok((last == identity).then_some(number))
}

/// Returns labels as bytes: the length of each name and value in four bytes, and its text.
pub(super) fn labels(labels: &[Label]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in labels.iter().flat_map(|label| [&label.name, &label.value]) {
        bytes.put_u32(text.len() as u32);
        bytes.put_slice(text.as_bytes());
    }
    bytes
}

/// Returns the bytes of a record from the expiry to the labels.
pub(super) fn properties(record: &Record) -> Vec<u8> {
    let labels = labels(&record.labels);
    let mut bytes = Vec::with_capacity(17 + record.key.len() + labels.len());
    bytes.put_u8(record.expires.is_some().into());
    bytes.put_i64(record.expires.unwrap_or(0));
    bytes.put_u32(record.key.len() as u32);
    bytes.put_u32(labels.len() as u32);
    bytes.put_slice(record.key.as_bytes());
    bytes.put_slice(&labels);
    bytes
}

/// A record, its number in the sequence of writes, and the incarnation of its space in which it was written.
pub(super) struct Stored {
    pub(super) record: Record,
    pub(super) id: i64,
    pub(super) incarnation: u64,
}

/// Reads the bytes of the record under a key, if there are any.
pub(super) fn optional(value: Option<Value>, key: &str) -> Result<Option<Stored>, Error> {
    match value {
        None | Some(Value::Nil) => Ok(None),
        Some(value) => decode(key, Bytes::from(bytes(value)?)).map(Some),
    }
}

/// Reads the bytes of the record under a key. Fails if they are those of another record.
pub(super) fn decode(key: &str, mut bytes: Bytes) -> Result<Stored, Error> {
    let cut = || damaged("a record");
    if *bytes.first().ok_or_else(cut)? > VERSION {
        return Err(Error::new(
            ErrorKind::TooNew,
            format!(
                "the record `{key:.80}` was written by a newer version of Cachalot: update Cachalot"
            ),
        ));
    }
    let mut take = |length: usize| {
        if length <= bytes.len() {
            Ok(bytes.split_to(length))
        } else {
            Err(cut())
        }
    };
    take(1)?;
    let number = |bytes: Bytes| i64::from_be_bytes(bytes[..].try_into().unwrap_or_default());
    let id = number(take(8)?);
    let (revision, updated) = (number(take(8)?), number(take(8)?));
    let incarnation = unsigned(number(take(8)?))?;
    let expires_at_all = take(1)?[0] == 1;
    let expires = number(take(8)?);
    let size = |bytes: Bytes| u32::from_be_bytes(bytes[..].try_into().unwrap_or_default()) as usize;
    let (key_length, labels_length) = (size(take(4)?), size(take(4)?));
    if take(key_length)? != key.as_bytes() {
        return Err(damaged("another record than the one asked for"));
    }
    let mut rest = take(labels_length)?;
    let mut texts = Vec::new();
    while !rest.is_empty() {
        if rest.len() < 4 {
            return Err(cut());
        }
        let length = size(rest.split_to(4));
        if rest.len() < length {
            return Err(cut());
        }
        let text = String::from_utf8(rest.split_to(length).into());
        texts.push(text.map_err(|_| damaged("a label"))?);
    }
    let mut texts = texts.into_iter();
    let mut labels = Vec::new();
    while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
        labels.push(Label { name, value });
    }
    let record = Record {
        key: key.to_owned(),
        value: bytes,
        labels,
        expires: expires_at_all.then_some(expires),
        revision: unsigned(revision)?,
        updated,
    };
    Ok(Stored {
        record,
        id,
        incarnation,
    })
}
