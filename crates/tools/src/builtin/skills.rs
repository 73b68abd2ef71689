//! The tools `skills_list`, `skill_view` and `skill_manage`. A skill is a folder whose SKILL.md gives
//! instructions for a task.
//!
//! Skills of the workspace are in `.cachalot/skills`, `skills` and `.claude/skills`, those of the user in
//! `skills` in the user's data folder. Among skills of one name, the first in this order is used.

mod front_matter;
mod locations;
mod manage;
mod writing;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_cache::Witness;
use cachalot_core::Effects;
use cachalot_core::config::{
    CallArguments, Custom, Parameter, ParameterKind as Kind, SettingValue as _, Settings,
    no_effect, tool_schema,
};
use cachalot_core::suggest::nearest;
use cachalot_core::text::head;
use cachalot_core::tree::Node;
use cachalot_operation::ResourceAccess;
use serde::Deserialize;
use serde_json::{Value, json};

use super::call_error::CallError;
use crate::run_blocking::run_blocking;
use crate::workspace::Workspace;
use cachalot_operation::{
    CacheClass, Failure, OperationMetadata, Tool, ToolContext, ToolOutput, TypedTool,
};
pub use locations::workspace_directories;
use locations::{SKILL_FILE, Skill, find, roots, touched};
use manage::SkillManage;

/// Maximum number of files of a skill that are listed.
const MAX_LISTED_FILES: usize = 200;

/// A skill of the agent file.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(name = "a skill", also = SKILL_KEYS_OF_OTHERS)]
pub struct InlineSkill {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its text.
    #[setting(key = "instructions")]
    pub text: String,
}

/// Keys of skills in docker-agent that change nothing here.
#[rustfmt::skip]
const SKILL_KEYS_OF_OTHERS: &[Parameter] = &[
    no_effect("context", "the agent reads the skill and follows it in the conversation"),
    no_effect("allowed_tools", "the agent has all its tools while it follows the skill"),
    no_effect("toolsets", "the agent has all its tools while it follows the skill"),
    no_effect("model", "the agent's own model follows the skill"),
];

/// The skills that an agent has.
///
/// The keys of their toolset are not for files: they come from `skills` of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(name = "`skills`", default)]
pub struct SkillSelection {
    /// True for the skills of the workspace and of the user.
    #[setting(kind = Kind::Custom(&HIDDEN), default = true)]
    pub local: bool,
    /// The names of those that are selected; `None` for all.
    #[setting(kind = Kind::Custom(&HIDDEN))]
    pub names: Option<Vec<String>>,
    /// Skills of the agent file, which precede others of the same name.
    #[setting(kind = Kind::Custom(&INLINE), with = inline)]
    pub inline: Vec<InlineSkill>,
}

static HIDDEN: Custom = Custom::hidden();

static INLINE: Custom = Custom {
    schema: None,
    check: |entry, problems| {
        for skill in entry.value.as_list().unwrap_or_default() {
            InlineSkill::TABLE.read(skill, problems);
        }
    },
};

fn inline(node: &Node) -> Option<Vec<InlineSkill>> {
    let skill = |item| InlineSkill::from_node(item, InlineSkill::KIND, &mut Vec::new());
    Some(node.as_list()?.iter().filter_map(skill).collect())
}

impl SkillSelection {
    fn inline(&self, name: &str) -> Option<&InlineSkill> {
        self.inline.iter().find(|skill| skill.name == name)
    }

    /// True if a skill of the workspace or the user is selected.
    fn selects(&self, name: &str) -> bool {
        let named = |names: &Vec<String>| names.iter().any(|known| known == name);
        self.local && self.names.as_ref().is_none_or(named)
    }

    /// The inputs of results, which depend on the selection. Absent for the default, as in keys of earlier
    /// versions.
    fn key(&self) -> Option<Value> {
        let inline = self.inline.iter();
        let inline: Vec<Value> = inline
            .map(|skill| json!([skill.name, skill.description, skill.text]))
            .collect();
        let is_default = self.local && self.names.is_none() && inline.is_empty();
        let key = json!({ "local": self.local, "names": self.names, "inline": inline });
        (!is_default).then_some(key)
    }

    fn implicit_inputs(&self, data: Option<&Path>) -> Value {
        let mut inputs = json!({ "data": data });
        if let Some(key) = self.key() {
            inputs["selection"] = key;
        }
        inputs
    }
}

/// Creates the three tools. `data` is the user's data folder, if the user's own skills are to be found.
#[must_use]
pub fn skills(data: Option<&Path>) -> Vec<Arc<dyn Tool>> {
    selected_skills(data, &SkillSelection::default())
}

/// Creates the three tools for selected skills, like [`skills()`].
#[must_use]
pub fn selected_skills(data: Option<&Path>, selection: &SkillSelection) -> Vec<Arc<dyn Tool>> {
    let data = data.map(Path::to_owned);
    vec![
        Arc::new(SkillsList::new(data.clone(), selection.clone())),
        Arc::new(SkillView::new(data.clone(), selection.clone())),
        Arc::new(SkillManage::new(data)),
    ]
}

fn metadata(
    name: &'static str,
    description: &'static str,
    parameters: &[Parameter],
) -> OperationMetadata {
    let parameters = tool_schema(parameters);
    super::metadata(name, description, parameters, true, CacheClass::Validated)
}

fn output(done: Result<String, CallError>, context: &ToolContext) -> ToolOutput {
    match done {
        Ok(text) => ToolOutput::text(context.secret_set.redact(&text)),
        Err(error) => error.output(&context.secret_set),
    }
}

/// The tool `skills_list`: lists every skill with its description, one per line. Witnesses what it reads.
struct SkillsList {
    metadata: OperationMetadata,
    data: Option<PathBuf>,
    selection: SkillSelection,
}

impl SkillsList {
    fn new(data: Option<PathBuf>, selection: SkillSelection) -> Self {
        let description = "Lists the skills: instructions for particular kinds of work, each with what it is for. Look here before unfamiliar work, then read the one that fits with skill_view.";
        Self {
            metadata: metadata("skills_list", description, &[]),
            data,
            selection,
        }
    }
}

/// The arguments of `skills_list`.
#[derive(Debug, Deserialize)]
struct SkillsListArguments {}

#[async_trait]
impl TypedTool for SkillsList {
    type Arguments = SkillsListArguments;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, _: &SkillsListArguments, context: &ToolContext) -> Effects {
        Effects::reading(touched(context, self.data.as_deref(), None))
    }

    fn resource_access(&self, _: &SkillsListArguments) -> ResourceAccess {
        ResourceAccess {
            searches: locations::paths(self.data.as_deref(), "", ""),
            ..ResourceAccess::default()
        }
    }

    fn implicit_inputs(&self, _context: &ToolContext) -> Result<Value, Failure> {
        Ok(self.selection.implicit_inputs(self.data.as_deref()))
    }

    async fn run(&self, _: SkillsListArguments, context: &ToolContext) -> ToolOutput {
        let (inner, data) = (context.clone(), self.data.clone());
        let selection = self.selection.clone();
        let listed = run_blocking(move |_| {
            let listed = list_skills(
                &inner.workspace,
                data.as_deref(),
                &inner.witness,
                &selection,
            );
            listed.unwrap_or_else(|| "There are no skills yet.".to_owned())
        })
        .await;
        output(Ok(listed), context)
    }
}

/// Returns the selected skills, one line each with the description, sorted by name; `None` if there are none.
/// Directories that cannot be read are named at the end. Witnesses what it reads.
#[must_use]
pub fn list_skills(
    workspace: &Workspace,
    data: Option<&Path>,
    witness: &Witness,
    selection: &SkillSelection,
) -> Option<String> {
    let inline = selection.inline.iter();
    let mut lines: Vec<(String, String)> = inline
        .map(|skill| {
            let line = format!("- {} (agent): {}", skill.name, skill.description);
            (skill.name.clone(), line)
        })
        .collect();
    let mut troubles = Vec::new();
    let roots = if selection.local {
        roots(workspace, data, witness)
    } else {
        Vec::new()
    };
    for root in roots {
        let names = root.names(witness).unwrap_or_else(|why| {
            witness.mark_incomplete(why.to_string());
            troubles.push(why.to_string());
            Vec::new()
        });
        for name in names {
            if lines.iter().any(|(known, _)| *known == name) || !selection.selects(&name) {
                continue;
            }
            match root.skill(&name, witness) {
                Ok(None) => {}
                Ok(Some(skill)) => lines.push((name, describe_skill(&skill, witness))),
                Err(why) => {
                    witness.mark_incomplete(why.to_string());
                    troubles.push(why.to_string());
                }
            }
        }
    }
    lines.sort();
    let troubles = troubles.into_iter().map(|trouble| format!("[{trouble}]"));
    let lines: Vec<String> = lines
        .into_iter()
        .map(|(_, line)| line)
        .chain(troubles)
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn describe_skill(skill: &Skill, witness: &Witness) -> String {
    let (name, owner) = (&skill.name, skill.root.owner.name());
    let head = skill
        .text(SKILL_FILE, witness)
        .and_then(|text| front_matter::read(&text));
    match head {
        Ok(head) => match head.name.filter(|said| said != name) {
            None => format!("- {name} ({owner}): {}", head.description),
            Some(said) => format!(
                "- {name} ({owner}, its file names it `{said}`): {}",
                head.description
            ),
        },
        Err(why) => format!("- {name} ({owner}) [not usable: {why}]"),
    }
}

/// The tool `skill_view`: returns the SKILL.md of a skill with the names of its other files, or one of those
/// files. Witnesses what it reads.
struct SkillView {
    metadata: OperationMetadata,
    data: Option<PathBuf>,
    selection: SkillSelection,
}

impl SkillView {
    fn new(data: Option<PathBuf>, selection: SkillSelection) -> Self {
        let description = "Reads a skill: its instructions and the names of its other files, or one of those files.";
        Self {
            metadata: metadata("skill_view", description, SkillViewArguments::PARAMETERS),
            data,
            selection,
        }
    }
}

/// The arguments of `skill_view`.
#[derive(Debug, CallArguments, Deserialize)]
struct SkillViewArguments {
    /// The skill, as skills_list names it.
    name: String,
    /// One of its files, relative to its folder; its SKILL.md by default.
    file: Option<String>,
}

impl SkillViewArguments {
    fn file(&self) -> Option<&str> {
        self.file.as_deref().filter(|file| !file.is_empty())
    }
}

#[async_trait]
impl TypedTool for SkillView {
    type Arguments = SkillViewArguments;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, arguments: &SkillViewArguments, context: &ToolContext) -> Effects {
        // An invalid name could lead to any path.
        let name = Some(&*arguments.name).filter(|name| locations::is_valid_name(name));
        Effects::reading(touched(context, self.data.as_deref(), name))
    }

    fn resource_access(&self, arguments: &SkillViewArguments) -> ResourceAccess {
        let (data, file) = (self.data.as_deref(), arguments.file());
        ResourceAccess::reading(locations::paths(
            data,
            &arguments.name,
            file.unwrap_or(SKILL_FILE),
        ))
    }

    fn implicit_inputs(&self, _context: &ToolContext) -> Result<Value, Failure> {
        Ok(self.selection.implicit_inputs(self.data.as_deref()))
    }

    async fn run(&self, arguments: SkillViewArguments, context: &ToolContext) -> ToolOutput {
        let inline = self.selection.inline(&arguments.name);
        if let Some(skill) = inline {
            return output(Ok(skill.text.clone()), context);
        }
        if !self.selection.selects(&arguments.name) {
            let shown = head(&arguments.name, 80);
            let missing = "; skills_list names those that there are";
            return output(
                Err(CallError::Refused(format!(
                    "there is no skill `{shown}`{missing}"
                ))),
                context,
            );
        }
        let (inner, data) = (context.clone(), self.data.clone());
        let viewed = run_blocking(move |_| view(&arguments, &inner, data.as_deref())).await;
        output(viewed, context)
    }
}

fn view(
    arguments: &SkillViewArguments,
    context: &ToolContext,
    data: Option<&Path>,
) -> Result<String, CallError> {
    let skill = existing(&arguments.name, context, data)?;
    let witness = &context.witness;
    if let Some(file) = arguments.file() {
        return skill.text(file, witness).map_err(|why| {
            match skill.files(MAX_LISTED_FILES, witness) {
                Ok((files, _)) => {
                    CallError::Refused(format!("{why}; its files are: {}", files.join(", ")))
                }
                Err(_) => why,
            }
        });
    }
    let mut text = skill.text(SKILL_FILE, witness)?;
    let (mut files, all) = skill.files(MAX_LISTED_FILES, witness)?;
    files.retain(|file| file != SKILL_FILE);
    if !files.is_empty() {
        text.push_str(&format!(
            "\n\n[Other files in {}: {}{}]",
            context.workspace.shown(&skill.resolved.requested),
            files.join(", "),
            if all { "" } else { ", …" }
        ));
    }
    Ok(text)
}

/// Returns the skill of a name; the error suggests a similar name.
fn existing(name: &str, context: &ToolContext, data: Option<&Path>) -> Result<Skill, CallError> {
    let roots = roots(&context.workspace, data, &context.witness);
    if locations::is_valid_name(name)
        && let Some(skill) = find(&roots, name, &context.witness)?
    {
        return Ok(skill);
    }
    let names: Vec<String> = roots
        .iter()
        .filter_map(|root| root.names(&context.witness).ok())
        .flatten()
        .collect();
    let shown = head(name, 80);
    Err(CallError::Refused(
        match nearest(shown, names.iter().map(String::as_str)) {
            Some(near) => format!("there is no skill `{shown}`; did you mean `{near}`?"),
            None => format!("there is no skill `{shown}`; skills_list names those that there are"),
        },
    ))
}
