//! Prefix breaks as the ledger has them.

use cachalot_cache::LedgerRow;
use cachalot_core::Cost;
use cachalot_prefix::diagnosis::LikelyCause;
use serde_json::Value;

/// Returns a field of the request's input in the ledger, or null.
pub(crate) fn known<'a>(row: &'a LedgerRow, field: &str) -> &'a Value {
    let fields = row.input.as_ref();
    fields.map_or(&Value::Null, |fields| &fields[field])
}

/// Returns the cost of the lost tokens over reading them.
pub(crate) fn lost_cost(row: &LedgerRow) -> Option<Cost> {
    serde_json::from_value(known(row, "lost_cost").clone()).ok()
}

/// Returns the likely cause.
pub(crate) fn cause(row: &LedgerRow) -> Option<LikelyCause> {
    let code = known(row, "cause").as_str()?;
    let mut causes = LikelyCause::ALL.iter();
    causes.find(|cause| cause.code() == code).copied()
}
