//! Amounts of money.

use cachalot_core::Cost;

use super::grouped;

/// Picodollars in a cent.
const CENT: u64 = 10_000_000_000;

/// Formats an amount in dollars and cents: `$1,204.50`; `<$0.01` for less than a cent.
pub(crate) fn money(cost: Cost) -> String {
    let cents = cost.picodollars / CENT + u64::from(cost.picodollars % CENT >= CENT / 2);
    match (cost.picodollars, cents) {
        (1.., 0) => "<$0.01".to_owned(),
        _ => format!("${}.{:02}", grouped(cents / 100), cents % 100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_cents() {
        for (picodollars, text) in [
            (0, "$0.00"),
            (1, "<$0.01"),
            (CENT / 2, "$0.01"),
            (150 * CENT, "$1.50"),
            (123_456_789 * CENT, "$1,234,567.89"),
            (u64::MAX, "$18,446,744.07"),
        ] {
            assert_eq!(money(Cost::from_picodollars(picodollars)), text);
        }
    }
}
