//! What work cost.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a run cost, or what an answer from the cache saved. Sums with `+=`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spend {
    /// How often the work ran.
    pub calls: u64,
    /// How long it took, on the wall clock.
    pub time: Duration,
    /// Tokens that providers were sent, those that they had cached included.
    #[serde(default)]
    pub input_tokens: u64,
    /// Tokens that providers made.
    #[serde(default)]
    pub output_tokens: u64,
    /// What providers charge for them.
    #[serde(default)]
    pub cost: Cost,
}

impl Spend {
    /// One call that took `time`.
    #[must_use]
    pub fn one(time: Duration) -> Self {
        Self {
            calls: 1,
            time,
            ..Self::default()
        }
    }

    /// Returns true if no tokens and no money were spent. Time does not count.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.input_tokens == 0 && self.output_tokens == 0 && self.cost.is_zero()
    }

    /// What is left when a part has been accounted for elsewhere; the number of calls stays.
    #[must_use]
    pub fn without(self, part: Self) -> Self {
        Self {
            calls: self.calls,
            time: self.time.saturating_sub(part.time),
            input_tokens: self.input_tokens.saturating_sub(part.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(part.output_tokens),
            cost: Cost {
                picodollars: self.cost.picodollars.saturating_sub(part.cost.picodollars),
                unpriced: self.cost.unpriced.saturating_sub(part.cost.unpriced),
            },
        }
    }
}

impl std::ops::AddAssign for Spend {
    fn add_assign(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.time = self.time.saturating_add(other.time);
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cost += other.cost;
    }
}

/// Money, exact: a price per million tokens with up to six decimals is a whole number of
/// picodollars per token. What has no known price is counted, and never taken for free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Billionths of a thousandth of a US dollar: 10⁻¹² $.
    pub picodollars: u64,
    /// Model calls whose price is not known, and is not in `picodollars`.
    pub unpriced: u64,
}

impl Cost {
    /// A model call whose price is not known.
    pub const UNPRICED: Self = Self {
        picodollars: 0,
        unpriced: 1,
    };

    /// So many billionths of a thousandth of a US dollar.
    #[must_use]
    pub fn of_picodollars(picodollars: u64) -> Self {
        Self {
            picodollars,
            unpriced: 0,
        }
    }

    /// In US dollars, to be shown and never computed with.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "53 bits are more digits than anybody reads"
    )]
    pub fn dollars(self) -> f64 {
        self.picodollars as f64 / 1e12
    }

    /// Whether nothing was charged, as far as is known, and everything is known.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self == Self::default()
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.picodollars = self.picodollars.saturating_add(other.picodollars);
        self.unpriced = self.unpriced.saturating_add(other.unpriced);
    }
}

/// `$0.0123`, `$0.0123 + 2 unpriced calls`, `unpriced`: four decimals from a hundredth of a cent
/// on, below that two significant digits.
impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.picodollars == 0 && self.unpriced > 0 {
            return f.write_str("unpriced");
        }
        let dollars = self.dollars();
        match self.picodollars {
            0 => f.write_str("$0")?,
            1..100_000_000 => write!(f, "${dollars:.1e}")?,
            _ => write!(f, "${dollars:.4}")?,
        }
        match self.unpriced {
            0 => Ok(()),
            1 => f.write_str(" + 1 unpriced call"),
            more => write!(f, " + {more} unpriced calls"),
        }
    }
}
