//! The cheapest plan of an estimate, and the setting that it needs.

use cachalot_prompt::PrefixLifetime;

use super::{Column, Estimate, Scheme};

/// Comparison of the plans of an estimate.
pub(crate) struct Recommendation<'e> {
    pub(crate) cheapest: &'e Column,
    /// The plan with which the others are compared: the original one, or the default.
    pub(crate) reference: &'e Column,
}

impl<'e> Recommendation<'e> {
    /// Returns `None` if the plans cannot be compared: the price is unknown, or the provider would refuse all.
    pub(crate) fn new(estimate: &'e Estimate) -> Option<Self> {
        let comparable = || {
            let columns = estimate.columns.iter();
            columns.filter(|column| {
                column.charged > 0 && column.refused == 0 && column.cost.unpriced == 0
            })
        };
        // Among equally cheap plans, the one that needs the least change wins.
        let rank = |column: &Column| match column.scheme {
            Scheme::AsSent => 0,
            Scheme::Planned(PrefixLifetime::Auto) | Scheme::Automatic => 1,
            Scheme::Planned(PrefixLifetime::FiveMinutes) => 2,
            Scheme::Planned(PrefixLifetime::OneHour) => 3,
            Scheme::Planned(PrefixLifetime::TwelveHours) => 4,
            Scheme::Without => 5,
        };
        Some(Self {
            cheapest: comparable().min_by_key(|column| (column.cost.picodollars, rank(column)))?,
            reference: comparable().min_by_key(|column| rank(column))?,
        })
    }

    /// Returns the cost of a plan minus that of the reference, as a part of the latter: 0.34 is 34 % more.
    pub(crate) fn difference(&self, column: &Column) -> Option<f64> {
        let reference = self.reference.cost.dollars();
        (reference > 0.0).then(|| column.cost.dollars() / reference - 1.0)
    }

    /// Returns the setting that leads to the cheapest plan.
    pub(crate) fn advice(&self) -> String {
        match self.cheapest.scheme {
            Scheme::AsSent => "keep the markers as they are".to_owned(),
            Scheme::Automatic => {
                "the provider caches by itself, so that there is nothing to set".to_owned()
            }
            Scheme::Planned(PrefixLifetime::Auto) if self.reference.scheme != Scheme::AsSent => {
                "keep `prefix: {ttl: auto}` of the agent, the default".to_owned()
            }
            Scheme::Planned(_) => {
                let name = self.cheapest.scheme.name();
                format!("set `prefix: {{ttl: {name}}}` of the agent")
            }
            Scheme::Without => {
                "nothing that is cached is read again; `cachalot prefix analyze` shows where the prefix breaks"
                    .to_owned()
            }
        }
    }
}
