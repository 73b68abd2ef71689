//! The configuration tree: values, places, problems, sections.

use cachalot_core::Problem;
use cachalot_core::tree::{Node, parse};
use serde_json::Value;

mod bounds;
mod places;
mod problems;
mod property;
mod section;
mod values;

fn read(text: &str) -> Node {
    parse("agent.yaml", text).unwrap_or_else(|problems| panic!("{text:?}: {problems:?}"))
}

fn value(text: &str) -> Value {
    read(text).to_value()
}

fn problems(text: &str) -> Vec<Problem> {
    match parse("agent.yaml", text) {
        Ok(node) => panic!("{text:?} was accepted: {:?}", node.to_value()),
        Err(problems) => {
            assert!(
                !problems.is_empty(),
                "{text:?} was refused without a problem"
            );
            problems
        }
    }
}

/// The codes and places of all problems, as `code@line:column`.
fn codes(text: &str) -> Vec<String> {
    let place = |problem: &Problem| {
        let place = problem
            .place
            .as_ref()
            .expect("every problem in a file has a place");
        assert_eq!(&*place.file, "agent.yaml");
        assert!(
            text.get(place.start..place.start + place.len).is_some(),
            "{place} {}",
            place.len
        );
        format!("{}@{}:{}", problem.code, place.line, place.column)
    };
    problems(text).iter().map(place).collect()
}
