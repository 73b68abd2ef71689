//! `cachalot validate`.

use std::path::Path;

use cachalot_core::Problem;
use cachalot_workflow::{actions, format};
use serde_json::{Value, json};

use crate::arguments::Validate;
use crate::backend::Backend;
use crate::outcome::{Result, Sources, Trouble};
use crate::render;
use crate::wiring::Surroundings;

/// An agent file and its text.
pub(crate) struct Loaded {
    pub(crate) agent: format::Agent,
    pub(crate) backend: Backend,
    pub(crate) sources: Sources,
}

/// Reads and checks an agent file.
pub(crate) fn load(
    file: &Path,
    registry: &actions::Registry,
    surroundings: &Surroundings,
) -> Result<Loaded> {
    let name = file.to_string_lossy().into_owned();
    let text = std::fs::read_to_string(file).map_err(|error| {
        Trouble::usage(match error.kind() {
            std::io::ErrorKind::InvalidData => {
                Problem::new("not-utf8", format!("{name} is not UTF-8 text"))
            }
            _ => Problem::new("unreadable-file", format!("{name}: {error}")),
        })
    })?;
    let loaded = format::load(&name, &text, registry, &surroundings.environment);
    let sources = Sources::from([(name, text)]);
    let agent = match loaded {
        Ok(agent) => agent,
        Err(problems) => return Err(Trouble::Usage { problems, sources }),
    };
    match Backend::of(&agent.settings.memory) {
        Ok(backend) => Ok(Loaded {
            agent,
            backend,
            sources,
        }),
        Err(problem) => Err(Trouble::Usage {
            problems: vec![*problem],
            sources,
        }),
    }
}

pub(crate) fn validate(arguments: &Validate, surroundings: &Surroundings) -> Result<()> {
    let loaded = load(&arguments.file, &actions::builtin(), surroundings);
    if !arguments.json {
        let loaded = loaded?;
        let nodes = loaded.agent.node_names().count() as u64;
        render::err(&format!(
            "{}: no problems, {}",
            arguments.file.display(),
            render::count(nodes, "node", "nodes")
        ));
        return Ok(());
    }
    match loaded {
        Ok(_) => render::json(&json!({"valid": true, "problems": []})),
        Err(Trouble::Usage {
            problems,
            sources: _,
        }) => {
            let listed: Vec<Value> = problems.iter().map(problem_json).collect();
            render::json(&json!({"valid": false, "problems": listed}))?;
            Err(Trouble::Usage {
                problems: Vec::new(),
                sources: Sources::new(),
            })
        }
        Err(other) => Err(other),
    }
}

fn problem_json(problem: &Problem) -> Value {
    json!({
        "code": problem.code,
        "message": problem.message,
        "help": problem.help,
        "file": problem.place.as_ref().map(|place| &*place.file),
        "line": problem.place.as_ref().map(|place| place.line),
        "column": problem.place.as_ref().map(|place| place.column),
    })
}
