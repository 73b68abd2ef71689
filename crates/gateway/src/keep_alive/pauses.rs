//! The pauses of conversations in the past, by which the use of further renewals is estimated.

use std::collections::{HashMap, VecDeque};

use cachalot_core::Millis;

/// Minimum number of pauses that an estimate needs.
const MIN_PAUSES: usize = 3;
/// Maximum number of pauses that are known of a client; the latest ones.
const MAX_PAUSES: usize = 100;
/// Maximum number of clients of which pauses are known.
const MAX_CLIENTS: usize = 10_000;

/// A pause that was longer than the lifetime of the conversation's prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pause {
    /// Its length, as far as it was observed, in milliseconds.
    pub(crate) length: Millis,
    /// True if the conversation was continued at its end.
    pub(crate) is_resumed: bool,
}

/// A series of renewals that may be sent from now on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Renewals {
    /// The time since the last request of the conversation, at which the first renewal is sent.
    pub(crate) idle: Millis,
    /// The time between two renewals.
    pub(crate) interval: Millis,
    /// The time for which the last one keeps the prefix.
    pub(crate) lifetime: Millis,
    /// The maximum number of renewals.
    pub(crate) most: u64,
    /// The cost of one, in picodollars.
    pub(crate) cost: u64,
    /// The cost of writing the prefix again, beyond that of reading it, in picodollars.
    pub(crate) saving: u64,
}

impl Renewals {
    /// Returns true if the renewals would have saved more than they cost, over those of these pauses that were longer than
    /// the current one is already, with the best number of them.
    pub(crate) fn pay(&self, pauses: impl Iterator<Item = Pause> + Clone) -> bool {
        if pauses.clone().count() < MIN_PAUSES {
            return false;
        }
        let gain = |number: u64| {
            let last = self
                .idle
                .saturating_add(self.interval.saturating_mul(number as i64 - 1));
            // The length of a pause that was not resumed is the time for which it was observed.
            let is_longer = |pause: &Pause| pause.length > self.idle || !pause.is_resumed;
            let longer = pauses.clone().filter(is_longer);
            let gains = longer.map(|pause| {
                let is_bridged =
                    pause.is_resumed && pause.length <= last.saturating_add(self.lifetime);
                let sent = if pause.is_resumed {
                    let before_end = (pause.length - self.idle - 1) / self.interval.max(1) + 1;
                    number.min(before_end as u64)
                } else {
                    number
                };
                let saved = if is_bridged {
                    i128::from(self.saving)
                } else {
                    0
                };
                saved - i128::from(self.cost) * i128::from(sent)
            });
            gains.sum::<i128>()
        };
        (1..=self.most).any(|number| gain(number) > 0)
    }
}

/// The latest pauses of each client.
#[derive(Debug, Default)]
pub(crate) struct Pauses(HashMap<String, VecDeque<Pause>>);

impl Pauses {
    /// Adds a pause of a client.
    pub(crate) fn add(&mut self, client: &str, pause: Pause) {
        if !self.0.contains_key(client) && self.0.len() >= MAX_CLIENTS {
            return;
        }
        let pauses = self.0.entry(client.to_owned()).or_default();
        if pauses.len() == MAX_PAUSES {
            pauses.pop_front();
        }
        pauses.push_back(pause);
    }

    /// Returns the pauses of a client.
    pub(crate) fn of<'a>(&'a self, client: &str) -> impl Iterator<Item = Pause> + Clone + use<'a> {
        self.0.get(client).into_iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: Millis = 60_000;

    fn resumed(minutes: i64) -> Pause {
        Pause {
            length: minutes * MINUTE,
            is_resumed: true,
        }
    }

    fn abandoned() -> Pause {
        Pause {
            length: 35 * MINUTE,
            is_resumed: false,
        }
    }

    /// Renewals of a prefix of five minutes, of which writing costs as much as about twelve of them.
    fn renewals(idle: i64, most: u64) -> Renewals {
        Renewals {
            idle: idle * MINUTE,
            interval: 4 * MINUTE,
            lifetime: 5 * MINUTE,
            most,
            cost: 100,
            saving: 1_150,
        }
    }

    fn pay(renewals: Renewals, pauses: &[Pause]) -> bool {
        renewals.pay(pauses.iter().copied())
    }

    #[test]
    fn renewals_pay_for_pauses_that_they_bridge() {
        let short = [resumed(8), resumed(9), resumed(12)];
        assert!(pay(renewals(4, 6), &short));
        assert!(!pay(renewals(4, 6), &short[..2]));
        // One in twelve pauses is bridged by one renewal: 12 x 100 > 1,150.
        let mut rare = vec![abandoned(); 11];
        rare.push(resumed(8));
        assert!(!pay(renewals(4, 6), &rare));
        rare.push(resumed(8));
        assert!(pay(renewals(4, 6), &rare));
        // All known pauses were over by now.
        assert!(!pay(renewals(13, 6), &short));
        // Those that were abandoned before they were observed for as long as the current one count all the same.
        let mut abandoned_before = vec![abandoned(); 20];
        abandoned_before.extend([resumed(50), resumed(50)]);
        assert!(!pay(renewals(36, 6), &abandoned_before));
        // Too few renewals are permitted to bridge them.
        let long = [resumed(30), resumed(30), resumed(31)];
        assert!(!pay(renewals(4, 3), &long));
        assert!(pay(renewals(4, 7), &long));
        assert!(!pay(renewals(4, 0), &short));
    }

    #[test]
    fn pauses_of_a_client_are_bounded() {
        let mut pauses = Pauses::default();
        for minutes in 1..=200 {
            pauses.add("a", resumed(minutes));
        }
        assert_eq!(pauses.of("a").count(), MAX_PAUSES);
        assert_eq!(pauses.of("a").next(), Some(resumed(101)));
        assert_eq!(pauses.of("b").count(), 0);
    }

    proptest! {
        /// What pays would have paid: the sum of the costs, pause by pause, is smaller than the saving.
        #[test]
        fn estimate_is_the_gain_over_the_pauses(
            pauses in prop::collection::vec((5_i64..60, any::<bool>()), 3..20),
            most in 1_u64..10,
            idle in 4_i64..12,
        ) {
            let pauses: Vec<Pause> = pauses
                .into_iter()
                .map(|(minutes, is_resumed)| Pause { is_resumed, ..resumed(minutes) })
                .collect();
            let series = renewals(idle, most);
            let best = (1..=most).map(|number| {
                let mut gain = 0_i64;
                let known = |pause: &&Pause| !pause.is_resumed || pause.length > series.idle;
                for pause in pauses.iter().filter(known) {
                    let times = (0..number as i64).map(|nth| series.idle + nth * series.interval);
                    let sent = times.filter(|at| !pause.is_resumed || *at < pause.length);
                    let (count, last) = sent.fold((0, 0), |(count, _), at| (count + 1, at));
                    gain -= count * 100;
                    if pause.is_resumed && pause.length <= last + series.lifetime {
                        gain += 1_150;
                    }
                }
                gain
            });
            prop_assert_eq!(series.pay(pauses.iter().copied()), best.max().unwrap_or(0) > 0);
        }
    }
}
