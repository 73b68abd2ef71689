//! Conversion of values to parameters, and of rows to results.

use std::borrow::Cow;
use std::error::Error as StdError;

use bytes::{Bytes, BytesMut};
use cachalot_store::{Error, ErrorKind, GetResult, Label, Record, ReserveResult};
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::{name, words};

/// A parameter of a statement.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// A name as a parameter of type `bytea`.
#[derive(Debug)]
pub(super) struct Bytea<'a>(Cow<'a, [u8]>);

impl ToSql for Bytea<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        self.0.as_ref().to_sql(kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::BYTEA
    }

    to_sql_checked!();
}

/// Returns the indexed form of a name.
pub(super) fn indexed(name: &str) -> Bytea<'_> {
    Bytea(name::indexed(name))
}

/// Returns a whole name, which the database stores.
pub(super) fn whole(name: &str) -> Bytea<'_> {
    Bytea(Cow::Borrowed(name.as_bytes()))
}

pub(super) fn indexed_all<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Bytea<'a>> {
    names.map(indexed).collect()
}

pub(super) fn whole_all<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Bytea<'a>> {
    names.map(whole).collect()
}

/// The two columns of labels, in whole.
pub(super) struct LabelColumns<'a> {
    pub(super) names: Vec<Bytea<'a>>,
    pub(super) values: Vec<Bytea<'a>>,
}

impl<'a> LabelColumns<'a> {
    pub(super) fn new(labels: impl IntoIterator<Item = &'a Label>) -> Self {
        let labels = labels.into_iter();
        let (names, values) = labels
            .map(|label| (whole(&label.name), whole(&label.value)))
            .unzip();
        Self { names, values }
    }
}

/// Records in columns, as `cachalot_put_all` and `cachalot_put_new` take them.
pub(super) struct RecordColumns<'a> {
    pub(super) spaces: Vec<Bytea<'a>>,
    keys: Vec<Bytea<'a>>,
    values: Vec<&'a [u8]>,
    expires: Vec<Option<i64>>,
    words: Vec<Option<String>>,
    labels: LabelColumns<'a>,
    /// The number of labels of each record and those before it.
    label_ends: Vec<i32>,
}

impl<'a> RecordColumns<'a> {
    pub(super) fn new(records: impl Iterator<Item = (&'a str, &'a Record)> + Clone) -> Self {
        let each = || records.clone().map(|(_, record)| record);
        let mut end = 0;
        Self {
            spaces: indexed_all(records.clone().map(|(space, _)| space)),
            keys: whole_all(each().map(|record| &*record.key)),
            values: each().map(|record| &record.value[..]).collect(),
            expires: each().map(|record| record.expires).collect(),
            words: records
                .clone()
                .map(|(space, record)| words::vector(space, record))
                .collect(),
            labels: LabelColumns::new(each().flat_map(|record| &record.labels)),
            label_ends: each()
                .map(|record| {
                    end += record.labels.len() as i32;
                    end
                })
                .collect(),
        }
    }

    /// Returns the parameters of a function: others, all columns but the spaces, and the shift of the time.
    pub(super) fn parameters<'p>(
        &'p self,
        others: &[Parameter<'p>],
        shift: &'p i64,
    ) -> Vec<Parameter<'p>> {
        let columns: [Parameter<'p>; 8] = [
            (&self.keys, Type::BYTEA_ARRAY),
            (&self.values, Type::BYTEA_ARRAY),
            (&self.expires, Type::INT8_ARRAY),
            (&self.words, Type::TEXT_ARRAY),
            (&self.labels.names, Type::BYTEA_ARRAY),
            (&self.labels.values, Type::BYTEA_ARRAY),
            (&self.label_ends, Type::INT4_ARRAY),
            (shift, Type::INT8),
        ];
        others.iter().cloned().chain(columns).collect()
    }
}

/// Error for data that Cachalot did not write.
pub(super) fn damaged(what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("the Postgres database contains data that is not Cachalot's: {what}"),
    )
}

pub(super) fn column<'r, T: FromSql<'r>>(row: &'r Row, name: &str) -> Result<T, Error> {
    row.try_get(name)
        .map_err(|error| damaged(&format!("{name}: {error}")))
}

pub(super) fn text(bytes: Vec<u8>) -> Result<String, Error> {
    String::from_utf8(bytes).map_err(|_| damaged("a name is not UTF-8"))
}

pub(super) fn unsigned(value: i64) -> Result<u64, Error> {
    u64::try_from(value).map_err(|_| damaged("a negative count"))
}

pub(super) fn counts(row: &Row, name: &str) -> Result<Vec<u64>, Error> {
    let counts = column::<Vec<i64>>(row, name)?;
    counts.into_iter().map(unsigned).collect()
}

fn label_list(names: Vec<Vec<u8>>, values: Vec<Vec<u8>>) -> Result<Vec<Label>, Error> {
    let labels = names.into_iter().zip(values);
    labels
        .map(|(name, value)| Ok(Label::new(text(name)?, text(value)?)))
        .collect()
}

/// Returns the labels of a record or a lease.
pub(super) fn labels(row: &Row) -> Result<Vec<Label>, Error> {
    label_list(column(row, "label_names")?, column(row, "label_values")?)
}

/// Returns the record of a row of `cachalot_records`.
pub(super) fn record(row: &Row) -> Result<Record, Error> {
    Ok(Record {
        key: text(column(row, "key")?)?,
        value: Bytes::from(column::<Vec<u8>>(row, "value")?),
        labels: labels(row)?,
        expires: column(row, "expires")?,
        revision: unsigned(column(row, "revision")?)?,
        updated: column(row, "updated")?,
    })
}

/// Returns the result of a function that reads the record under `key`.
pub(super) fn get_result(row: &Row, key: &str) -> Result<GetResult, Error> {
    let record = match column::<Option<i64>>(row, "o_revision")? {
        None => None,
        Some(_) if column::<&[u8]>(row, "o_key")? != key.as_bytes() => {
            return Err(damaged("another record than the one asked for"));
        }
        Some(revision) => Some(Record {
            key: key.to_owned(),
            value: Bytes::from(column::<Vec<u8>>(row, "o_value")?),
            labels: label_list(column(row, "o_names")?, column(row, "o_values")?)?,
            expires: column(row, "o_expires")?,
            revision: unsigned(revision)?,
            updated: column(row, "o_updated")?,
        }),
    };
    Ok(GetResult {
        record,
        counters: counts(row, "o_counts")?,
        now: column(row, "o_now")?,
    })
}

/// Returns the result of a function that reserves `key`.
pub(super) fn reserve_result(row: &Row, space: &str, key: &str) -> Result<ReserveResult, Error> {
    let fence = unsigned(column(row, "o_fence")?)?;
    Ok(match column::<Option<i64>>(row, "o_left")? {
        Some(left) => ReserveResult::Busy {
            fence,
            left: Duration::from_millis(unsigned(left)?),
        },
        None => ReserveResult::held(space, key, fence),
    })
}
