//! Reads a limit of which 0 means none.

use cachalot_core::Problem;
use cachalot_core::config::Values;

/// Returns a limit of at least `min`; 0 is no limit.
pub(super) fn limit(values: Values<'_>, key: &str, min: u32, problems: &mut Vec<Problem>) -> u32 {
    match values.integer(key) {
        None | Some(0) => u32::MAX,
        Some(limit) if limit >= min => limit,
        Some(limit) => {
            let message =
                format!("`{key}` must be at least {min}, or 0 for no limit, but it is {limit}");
            problems.push(
                Problem::new("out-of-range", message)
                    .at(&values.place(key))
                    .help(format!("write {min} or more, or 0")),
            );
            limit
        }
    }
}
