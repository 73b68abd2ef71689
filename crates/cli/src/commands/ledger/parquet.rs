//! `cachalot ledger export FILE.parquet`: calls as Parquet, in a build with DuckDB.

use std::io::Write;

use cachalot_cache::Ledger;

use crate::command_error::{CommandError, Result};

/// Writes all calls, the oldest first; returns their number.
#[cfg(feature = "duckdb")]
pub(super) fn write(ledger: &Ledger, mut to: impl Write) -> Result<u64> {
    let directory = tempfile::tempdir()?;
    let (csv, parquet) = (
        directory.path().join("calls.csv"),
        directory.path().join("calls.parquet"),
    );
    let count = super::export::write(ledger, std::fs::File::create(&csv)?)?;
    cachalot_backends::duckdb::csv_to_parquet(&csv, &super::export::COLUMNS, &parquet)
        .map_err(CommandError::failed)?;
    std::io::copy(&mut std::fs::File::open(&parquet)?, &mut to)?;
    Ok(count)
}

#[cfg(not(feature = "duckdb"))]
pub(super) fn write(_: &Ledger, _: impl Write) -> Result<u64> {
    Err(CommandError::failed(
        "this build writes no Parquet: name a file that ends in `.csv`, which DuckDB reads as well, or build Cachalot with \
         the feature `duckdb`",
    ))
}
