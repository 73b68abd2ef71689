//! The chart of costs by day and model.

use std::collections::{BTreeMap, HashMap};

use cachalot_core::{Cost, Millis};
use cachalot_model::Catalog;
use cachalot_prefix::walk::{Session, SessionWalk};

use super::sums::payments;
use crate::render::html::chart::{Chart, Column};
use crate::render::local_time::{day_of, days, month_of, week_of};

/// The maximum number of days with a column each.
const MAX_DAYS: u64 = 62;

/// Six days, in milliseconds: the time between the first and the last day of a week.
const WEEK: Millis = 518_400_000;

/// The maximum number of days whose weeks have a column each.
const MAX_DAYS_OF_WEEKS: u64 = 430;

/// Half a day, in milliseconds: no day is shorter, also where clocks are changed.
const STEP: Millis = 43_200_000;

/// Returns the chart. `series` has the place of each model, `names` are those of the series.
pub(super) fn chart(
    sessions: &[(Session<'_>, SessionWalk<'_>)],
    catalog: &Catalog,
    (first, last): (Millis, Millis),
    series: &HashMap<&str, usize>,
    names: &[String],
) -> Chart {
    let (unit, name_of): (_, fn(Millis) -> String) = match days(first, last) {
        0..=MAX_DAYS => ("day", day_of),
        days if days <= MAX_DAYS_OF_WEEKS => ("week", week_of),
        _ => ("month", month_of),
    };
    let mut columns: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    // Days without a cost are columns, too. Fewer columns than those of a week would be very wide.
    let mut at = first.min(last.saturating_sub(WEEK));
    while at < last {
        columns.entry(name_of(at)).or_default();
        at = at.saturating_add(STEP);
    }
    for payment in sessions
        .iter()
        .flat_map(|session| payments(session, catalog))
    {
        let Some(at) = payment.answer.at else {
            continue;
        };
        let values = columns.entry(name_of(at)).or_default();
        let place = series.get(&*payment.answer.model).copied().unwrap_or(0);
        values.resize(names.len(), 0);
        values[place] = values[place].saturating_add(payment.cost.picodollars);
    }
    let columns = columns.into_iter().map(|(name, mut values)| {
        values.resize(names.len(), 0);
        Column { name, values }
    });
    let columns: Vec<_> = columns.collect();
    let title = format!("Cost by {unit} and model");
    Chart::new(title, unit, names.to_vec(), &columns, |value| {
        Cost::from_picodollars(value).amount()
    })
}
