//! Keys that limit something, with 0 for no limit.

use cachalot_core::Problem;
use cachalot_core::tree::Section;

/// Claims `key`: a limit of at least `min`, or 0 for none.
pub(super) fn limit(
    section: &mut Section<'_>,
    key: &'static str,
    min: u32,
    problems: &mut Vec<Problem>,
) -> Option<u32> {
    let number = section.integer(key, 0..=u64::from(u32::MAX), problems)?;
    match u32::try_from(number).ok()? {
        0 => Some(u32::MAX),
        limit if limit >= min => Some(limit),
        limit => {
            let mut problem = Problem::new(
                "out-of-range",
                format!("`{key}` must be at least {min}, or 0 for no limit, but it is {limit}"),
            )
            .help(format!("write {min} or more, or 0"));
            if let Some(node) = section.node(key) {
                problem = problem.at(&node.place);
            }
            problems.push(problem);
            None
        }
    }
}
