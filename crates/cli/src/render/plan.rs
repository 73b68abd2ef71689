//! Plans of `--plan`, as text and as JSON.

use cachalot_workflow::graph::{Plan, PlannedNode, What};
use serde_json::{Value, json};

use super::count;

/// Renders the plan as text: one line per node, then a summary.
pub(crate) fn render(plan: &Plan) -> String {
    let rows: Vec<Vec<String>> = plan.nodes.iter().map(row).collect();
    let mut text = super::table::columns(&rows);
    if let Some(ends) = &plan.ends {
        text.push_str(&format!("the plan ends here: {ends}\n"));
    }
    let of = |wanted: fn(&What) -> bool| {
        plan.nodes
            .iter()
            .filter(|planned| wanted(&planned.what))
            .count() as u64
    };
    let hits = of(|what| matches!(what, What::Hit { .. }));
    let pays = of(|what| matches!(what, What::Pays { .. }));
    let open = of(|what| matches!(what, What::Unknown { .. }));
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

fn row(planned: &PlannedNode) -> Vec<String> {
    let (outcome, detail) = match &planned.what {
        What::Runs { work } => ("runs", work.clone()),
        What::Hit { handle } => ("hit", handle.clone()),
        What::Pays { handle, reason } => (
            "pays",
            format!("{}  ({reason})", handle.as_deref().unwrap_or("-")),
        ),
        What::Unknown { until } => ("unknown", format!("until {until} has run")),
        What::Fails { message } => ("fails", message.clone()),
    };
    vec![planned.node.clone(), outcome.to_owned(), detail]
}

/// Returns the plan as JSON.
pub(crate) fn json(plan: &Plan) -> Value {
    let nodes: Vec<Value> = plan
        .nodes
        .iter()
        .map(|planned| match &planned.what {
            What::Runs { work } => json!({"node": planned.node, "outcome": "runs", "work": work}),
            What::Hit { handle } => {
                json!({"node": planned.node, "outcome": "hit", "key": handle})
            }
            What::Pays { handle, reason } => json!({
                "node": planned.node, "outcome": "pays", "key": handle, "reason": reason
            }),
            What::Unknown { until } => {
                json!({"node": planned.node, "outcome": "unknown", "until": until})
            }
            What::Fails { message } => {
                json!({"node": planned.node, "outcome": "fails", "error": message})
            }
        })
        .collect();
    json!({"nodes": nodes, "ends": plan.ends})
}
