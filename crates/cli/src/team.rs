//! Agent files that hold a team.

use std::path::{Path, PathBuf};

use cachalot_agent::{Team, Written};
use cachalot_core::{Problem, tree};

use crate::home::Home;
use crate::outcome::{Result, Sources, Trouble};
use crate::wiring::Surroundings;

/// A team, and where it is written.
pub(crate) struct Loaded {
    pub(crate) team: Team,
    /// The file as the user named it.
    pub(crate) path: PathBuf,
}

/// Reads and checks the file.
pub(crate) fn load(file: &Path, surroundings: &Surroundings) -> Result<Loaded> {
    let name = file.to_string_lossy().into_owned();
    let path = surroundings.directory.join(file);
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Trouble::usage(match error.kind() {
            std::io::ErrorKind::InvalidData => {
                Problem::new("not-utf8", format!("{name} is not UTF-8 text"))
            }
            _ => Problem::new("unreadable-file", format!("{name}: {error}")),
        })
    })?;
    let written = Written {
        text: &text,
        directory: path.parent().unwrap_or(Path::new("")),
        environment: &surroundings.environment,
    };
    let loaded = tree::parse(&name, &text).and_then(|root| match is_workflow(&root) {
        true => Err(vec![
            Problem::new("not-a-team", format!("{name} is a workflow"))
                .at(&root.place)
                .help(format!("run it: `cachalot run {name}`")),
        ]),
        false => Team::load(&root, &written),
    });
    match loaded {
        Ok(team) => Ok(Loaded {
            team,
            path: file.to_owned(),
        }),
        Err(problems) => Err(Trouble::Usage {
            problems,
            sources: Sources::from([(name, text)]),
        }),
    }
}

/// Whether a file has nodes to be run; otherwise it is a team's.
pub(crate) fn is_workflow(root: &tree::Node) -> bool {
    root.get("nodes").is_some()
}

impl Loaded {
    /// Where things are kept.
    pub(crate) fn home(&self, given: Option<&Path>, surroundings: &Surroundings) -> Result<Home> {
        surroundings.home(given, None)
    }
}
