//! Unit tests of `src/handler/question_template.rs`.

use serde_json::json;

use super::*;
use crate::Event;

fn asked(source: &str) -> Result<String, Fault> {
    let told = json!({
        "tool_name": "shell",
        "tool_input": { "cmd": "ls <a> & 'b'", "n": 1 },
    });
    QuestionTemplate::parse(source, Event::PreToolUse.contract())
        .unwrap()
        .render(told.as_object().unwrap().clone())
}

fn wrong(source: &str) -> Problem {
    QuestionTemplate::parse(source, Event::PreToolUse.contract()).unwrap_err()
}

#[test]
fn template_renders_the_input_of_the_handler() {
    for (source, question) in [
        ("Run {{ tool_name }}?", "Run shell?"),
        (
            "{{ tool_input | tojson }}",
            r#"{"cmd":"ls <a> & 'b'","n":1}"#,
        ),
        ("{{ tool_input.cmd | truncate(5) }}", "ls <a…"),
        ("{{ tool_input.cmd | truncate(12) }}", "ls <a> & 'b'"),
        ("{{ tool_input | tojson | truncate(4) }}", "{\"cm…"),
        ("{{ tool_input.n | truncate(4) }}", "1"),
        ("{{ input.tool_name }}", "shell"),
        (
            "{{ .ToolName }}: {{ .ToolInput.cmd | truncate 5 }}",
            "shell: ls <a…",
        ),
        ("[{{ last_user_message }}]", "[]"),
        ("{{ input.agent_name | default('nobody') }}", "nobody"),
        ("{% for n in range(2) %}{{ n }}{% endfor %}", "01"),
    ] {
        assert_eq!(asked(source).unwrap(), question, "{source}");
    }
}

#[test]
fn undefined_values_are_a_fault() {
    for source in [
        "{{ tool_input.path }}",
        "{{ tool_input.path | tojson }}",
        "{{ tool_input.path | truncate(3) }}",
        "{{ input.no_such_field }}",
    ] {
        let fault = asked(source).unwrap_err().message;
        assert!(fault.contains("default("), "{source}: {fault}");
    }
    let fault = asked("{{ last_user_message }}").unwrap_err().message;
    assert!(fault.contains("nothing is left"), "{fault}");
    let endless =
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}x";
    assert!(asked(endless).unwrap_err().message.contains("steps"));
}

#[test]
fn template_problems_are_reported_at_load() {
    let problem = wrong("{{ tool_inptu | tojson }}");
    assert_eq!(problem.code, "unknown-name");
    assert_eq!(problem.help.as_deref(), Some("did you mean `tool_input`?"));
    assert_eq!(
        wrong("{{ stop_response }}").code,
        "unknown-name",
        "of another event"
    );
    assert_eq!(
        wrong("{{ range .ToolInput }}{{ end }}").code,
        "bad-template"
    );
    assert_eq!(wrong("{% if %}").code, "bad-template");
    assert_eq!(
        wrong("{{ tool_input.a.b | no_such_filter }}").code,
        "bad-template"
    );
    assert_eq!(wrong("{% include 'x' %}").code, "bad-template");
    assert_eq!(wrong(" \n").code, "missing-key");
}
