//! Plans of `--plan`, as text and as JSON.

use cachalot_core::digest::abbreviate;
use cachalot_workflow::graph::{Plan, PlannedNode, PlannedOutcome};
use serde_json::{Value, json};

use super::count;
use super::table::{Column, table};
use super::visible::on_one_line;

/// Renders the plan as text: one line per node, then a summary. Digests are whole if `verbose` is set.
pub(crate) fn render(plan: &Plan, verbose: bool) -> String {
    let nodes = plan.nodes.iter();
    let rows: Vec<Vec<String>> = nodes.map(|planned| row(planned, verbose)).collect();
    let columns = [Column::whole(""), Column::whole(""), Column::wrapped("")];
    let mut text = table(&columns, &rows);
    if let Some(ends) = &plan.ends {
        text.push_str(&format!("the plan ends here: {ends}\n"));
    }
    let of = |wanted: fn(&PlannedOutcome) -> bool| {
        plan.nodes
            .iter()
            .filter(|planned| wanted(&planned.outcome))
            .count() as u64
    };
    let hits = of(|outcome| matches!(outcome, PlannedOutcome::Hit { .. }));
    let pays = of(|outcome| matches!(outcome, PlannedOutcome::Miss { .. }));
    let open = of(|outcome| matches!(outcome, PlannedOutcome::Unknown { .. }));
    text.push_str(&format!(
        "would pay {} · {}",
        count(pays, "call", "calls"),
        count(hits, "hit", "hits")
    ));
    if open > 0 {
        text.push_str(&format!(
            " · {} not known yet",
            count(open, "node", "nodes")
        ));
    }
    text.push('\n');
    text
}

fn row(planned: &PlannedNode, verbose: bool) -> Vec<String> {
    let shown = |handle: &str| {
        if verbose {
            handle.to_owned()
        } else {
            abbreviate(handle).to_owned()
        }
    };
    let (outcome, detail) = match &planned.outcome {
        PlannedOutcome::Runs { work } => ("runs", work.clone()),
        PlannedOutcome::Hit { handle } => ("hit", shown(handle)),
        PlannedOutcome::Miss { handle, reason } => (
            "pays",
            format!("{}  ({reason})", shown(handle.as_deref().unwrap_or("-"))),
        ),
        PlannedOutcome::Unknown { node_to_run } => {
            ("unknown", format!("until {node_to_run} has run"))
        }
        PlannedOutcome::Fails { message } => ("fails", message.clone()),
    };
    vec![
        on_one_line(&planned.node),
        outcome.to_owned(),
        on_one_line(&detail),
    ]
}

/// Returns the plan as JSON.
pub(crate) fn json(plan: &Plan) -> Value {
    let nodes: Vec<Value> = plan
        .nodes
        .iter()
        .map(|planned| match &planned.outcome {
            PlannedOutcome::Runs { work } => {
                json!({"node": planned.node, "outcome": "runs", "work": work})
            }
            PlannedOutcome::Hit { handle } => {
                json!({"node": planned.node, "outcome": "hit", "key": handle})
            }
            PlannedOutcome::Miss { handle, reason } => json!({
                "node": planned.node, "outcome": "pays", "key": handle, "reason": reason
            }),
            PlannedOutcome::Unknown { node_to_run } => {
                json!({"node": planned.node, "outcome": "unknown", "until": node_to_run})
            }
            PlannedOutcome::Fails { message } => {
                json!({"node": planned.node, "outcome": "fails", "error": message})
            }
        })
        .collect();
    json!({"nodes": nodes, "ends": plan.ends})
}
