//! Unit tests of `src/contract/kinds.rs`.

use std::collections::BTreeSet;

use super::*;
use crate::contract::{CONTRACTS, Field};

#[test]
fn every_input_key_has_exactly_one_kind() {
    let mut told: Vec<&str> = Field::COMMON.to_vec();
    let fields = CONTRACTS.iter().flat_map(|contract| contract.fields);
    told.extend(fields.flat_map(|field| field.keys()));
    let told: BTreeSet<&str> = told.into_iter().collect();
    let known: BTreeSet<&str> = INPUT_KEYS.iter().map(|key| key.name).collect();
    assert_eq!(told, known);
    assert_eq!(INPUT_KEYS.len(), known.len());
}
