//! Unit tests of `src/contract.rs`.

use super::*;

#[test]
fn contracts_are_ordered_by_event() {
    for (index, contract) in CONTRACTS.iter().enumerate() {
        assert_eq!(contract.event as usize, index);
        assert_eq!(contract.event.name().parse(), Ok(contract.event));
    }
}
