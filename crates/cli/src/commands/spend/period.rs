//! The time that a report covers.

use cachalot_core::{Millis, Problem};

use crate::command_error::{CommandError, Result};
use crate::render::local_time::{TimeSpan, day};
use crate::render::visible::on_one_line;
use crate::wiring::ProcessEnvironment;

/// The time that a report covers. A day is included as a whole, whether it is named as a date or as an age in days.
pub(crate) struct Period {
    /// The first moment.
    since: Option<Millis>,
    /// The first moment that is not included.
    until: Option<Millis>,
}

impl Period {
    /// Parses `--since` and `--until`.
    ///
    /// # Errors
    /// One of them is neither a date nor an age.
    pub(crate) fn new(
        since: Option<&str>,
        until: Option<&str>,
        process_environment: &ProcessEnvironment,
    ) -> Result<Self> {
        let now = process_environment.clock.now();
        Ok(Self {
            since: bound(since, "since", now)?.map(|bound| bound.begin),
            until: bound(until, "until", now)?.map(|bound| bound.end),
        })
    }

    /// True for a time of the period; an unknown time is in a period without bounds only.
    pub(crate) fn contains(&self, at: Option<Millis>) -> bool {
        match at {
            Some(at) => {
                self.since.is_none_or(|since| at >= since)
                    && self.until.is_none_or(|until| at < until)
            }
            None => self.since.is_none() && self.until.is_none(),
        }
    }
}

/// Returns the day, or the moment, that an option names.
fn bound(text: Option<&str>, name: &str, now: Millis) -> Result<Option<TimeSpan>> {
    let Some(text) = text else { return Ok(None) };
    let age = cachalot_core::duration::parse_units(text);
    let age = age.and_then(|age| i64::try_from(age.as_millis()).ok());
    let moment = age.and_then(|age| now.checked_sub(age));
    let found = match moment {
        Some(moment) if text.trim_end().ends_with('d') => TimeSpan::of_day(moment),
        Some(moment) => Some(TimeSpan {
            begin: moment,
            end: moment,
        }),
        None => day(text),
    };
    match found {
        Some(found) => Ok(Some(found)),
        None => {
            let message = format!("`{}` is no time for --{name}", on_one_line(text));
            let problem = Problem::new("bad-value", message);
            Err(CommandError::usage(
                problem.help("write a date (2026-11-20) or an age (7d)"),
            ))
        }
    }
}
