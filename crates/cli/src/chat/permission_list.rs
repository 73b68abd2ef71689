//! `/permissions`: the rules in force, in the order in which they decide.

use cachalot_agent::Chat;

use crate::render::visible::on_one_line;
use crate::workbench::Workbench;

/// Describes the rules and their places, and what happens to calls that none of them is about.
pub(super) fn describe(chat: &Chat, bench: &Workbench, default_decision: &str) -> String {
    let rules: Vec<(&str, String, String)> = chat
        .permissions()
        .in_order()
        .map(|rule| (rule.kind, on_one_line(rule.text), rule.place.to_string()))
        .collect();
    let widest = rules.iter().map(|(_, text, _)| text.chars().count()).max();
    let widest = widest.unwrap_or_default().min(48);
    let heading = if rules.is_empty() {
        "there are no rules"
    } else {
        "the first rule that matches a call decides:"
    };
    let mut lines = vec![heading.to_owned()];
    lines.extend(
        rules.iter().map(|(kind, text, place)| {
            format!("  {kind:<5} {text:<widest$}  {}", on_one_line(place))
        }),
    );
    for (agent, rule) in chat.granted() {
        let (agent, rule) = (on_one_line(&agent), on_one_line(&rule));
        lines.push(format!(
            "  allow {rule:<widest$}  your answer in this chat, for {agent}"
        ));
    }
    lines.push(format!(
        "without a rule: tools that only read run; {default_decision}"
    ));
    lines.push(
        "asked about unless an allow rule names them: writes of files that decide what agents, hooks or git do, and calls that can carry data away"
            .to_owned(),
    );
    lines.push(match bench.sandbox_label() {
        "" => "commands run without a sandbox".to_owned(),
        label => format!("commands: {label}"),
    });
    lines.join("\n")
}
