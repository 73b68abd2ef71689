//! Unit tests of `src/go_template.rs`.

use super::*;

#[test]
fn go_templates_are_translated() {
    for (go, jinja) in [
        ("Tool: {{ .ToolName }}", "Tool: {{ tool_name }}"),
        ("{{.ToolUseID}}", "{{ tool_use_id }}"),
        ("{{ .ToolInput | toJSON }}", "{{ tool_input | tojson }}"),
        ("{{ toJSON .ToolInput }}", "{{ tool_input | tojson }}"),
        (
            "{{ .ToolInput.cmd | truncate 500 }}",
            "{{ tool_input.cmd | truncate(500) }}",
        ),
        (
            "{{ index .ToolInput \"a b\" }}",
            "{{ tool_input[\"a b\"] }}",
        ),
        ("{{ . | toJSON }}", "{{ input | tojson }}"),
        (
            "{{- if eq .ToolName \"shell\" -}}a{{ else }}b{{ end }}",
            "{%- if (tool_name == \"shell\") -%}a{% else %}b{% endif %}",
        ),
        ("{{ if and .Prompt (len .Prompt) }}{{ end }}", ""),
        (
            "{{/* why */}}{{ .Cwd }} {% {#",
            "{#  why  #}{{ cwd }} {{ '{%' }} {{ '{#' }}",
        ),
        ("{{ tool_name }} {% if x %}", "{{ tool_name }} {% if x %}"),
    ] {
        match to_jinja(go) {
            Ok(translated) => assert_eq!(translated, jinja, "{go}"),
            Err(problem) => assert!(jinja.is_empty(), "{go}: {problem}"),
        }
    }
}

#[test]
fn templates_without_counterpart_are_refused() {
    for go in [
        "{{ range .Messages }}{{ end }}",
        "{{ printf \"%s\" .ToolName }}",
        "{{ $x := .ToolName }}{{ .Cwd }}",
        "{{ if .ToolName }}",
        "{{ .ToolName }}{{ end }}",
        "{{ .ToolName",
        "{{ .Cwd }}{{ tool_name }}",
    ] {
        let refused = to_jinja(go).map(|template| template.into_owned());
        match refused {
            Err(problem) => assert_eq!(problem.code, "bad-template", "{go}"),
            // Nothing of it is an action.
            Ok(same) => assert_eq!((same.as_str(), go), ("{{ .ToolName", "{{ .ToolName")),
        }
    }
}

#[test]
fn fields_of_the_input_are_found_in_templates() {
    for (text, field) in [
        ("echo {{ .ToolName }}", Some("tool_name")),
        ("echo {{.tool_name}}", Some("tool_name")),
        ("echo {{ tool_input.cmd }}", Some("tool_input")),
        ("echo '{{ toJSON .ToolInput }}'", Some("tool_input")),
        ("docker ps --format '{{.Names}}'", None),
        ("echo $tool_name", None),
    ] {
        assert_eq!(named_field(text), field, "{text}");
    }
}
