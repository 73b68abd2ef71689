//! The price of an answer that several models may have worked on.

use cachalot_accounting::{Price, Terms, Unpriced, Usage, price};
use cachalot_core::{Cost, Millis};
use cachalot_wire::ModelUsage;

/// The tokens of an answer, and their price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The tokens of all models.
    pub usage: Usage,
    /// The price, or the part of it that is not known.
    pub cost: Result<Cost, Unpriced>,
}

impl Charge {
    /// Prices the tokens of an answer. `listed` returns the name and the price of a model; `None` stands for the one
    /// that was asked.
    pub fn new<'a>(
        usages: &'a [ModelUsage],
        terms: &Terms,
        at: Millis,
        listed: impl Fn(Option<&'a str>) -> (&'a str, Option<&'a Price>),
    ) -> Self {
        let mut charge = Self {
            usage: Usage::default(),
            cost: if usages.is_empty() {
                Err(Unpriced::Usage)
            } else {
                Ok(Cost::default())
            },
        };
        for ModelUsage { model, usage } in usages {
            charge.usage += *usage;
            let (name, listed) = listed(model.as_deref());
            let cost = price(usage, name, listed, at, terms);
            charge.cost = charge.cost.and_then(|mut sum| {
                sum += cost?;
                Ok(sum)
            });
        }
        charge
    }

    /// Returns the price; [`Cost::UNPRICED`], never 0, if a part of it is not known.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.cost.as_ref().copied().unwrap_or(Cost::UNPRICED)
    }
}
