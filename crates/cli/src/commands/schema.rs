//! `cachalot schema`.

use cachalot_hooks::Event;
use cachalot_hooks::schema::{hooks_schema, input_schema, output_schema};
use serde_json::{Map, Value, json};

use crate::arguments::SchemaOf;
use crate::command_error::Result;
use crate::wiring::ProcessEnvironment;
use crate::{hooks, render};

pub(crate) fn schema(of: SchemaOf, process_environment: &ProcessEnvironment) -> Result<()> {
    match of {
        SchemaOf::Agent => render::json(&agent_schema(process_environment)?),
        SchemaOf::Gateway => render::json(&cachalot_gateway::Config::schema()),
        SchemaOf::McpPolicy => render::json(&cachalot_mcp::proxy_policy::ProxyPolicy::schema()),
        SchemaOf::Hooks => {
            let events: Map<_, _> = Event::all()
                .map(|event| {
                    let told = input_schema(event);
                    let schemas = json!({"input": told, "output": output_schema(event)});
                    (event.name().to_owned(), schemas)
                })
                .collect();
            render::json(&json!({"hooks": hooks_schema(), "events": events}))
        }
    }
}

/// Returns the schema of agent files, with hooks and the sections of builtins.
fn agent_schema(process_environment: &ProcessEnvironment) -> Result<Value> {
    let actions = cachalot_workflow::actions::builtin();
    let mut schema = cachalot_workflow::format::schema(&actions);
    let agent = &mut schema["$defs"]["agent"]["properties"];
    // An embedded schema with its own id: its references resolve to its own definitions.
    agent["hooks"] = hooks_schema();
    agent["hooks"]["$id"] = json!("urn:cachalot:hooks");
    for builtin in hooks::for_reading(process_environment)?.iter() {
        for section in builtin.sections() {
            agent[*section] = builtin.section_schema(section);
        }
    }
    Ok(schema)
}
