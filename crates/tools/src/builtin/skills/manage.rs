//! The tool `skill_manage`, which creates, changes and deletes skills.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use cachalot_core::Effects;
use cachalot_core::config::{CallArguments, Custom, Parameter, ParameterKind as Kind};
use cachalot_operation::ResourceAccess;
use serde::Deserialize;
use serde_json::json;

use super::locations::{
    self, MAX_FILE_BYTES, Owner, SKILL_FILE, Skill, SkillRoot, is_valid_name, roots, touched,
    user_root,
};
use super::{existing, front_matter, metadata, output, writing};
use crate::builtin::call_error::CallError;
use crate::run_blocking::run_blocking;
use crate::workspace::PathKind;
use cachalot_operation::{CacheClass, OperationMetadata, ToolContext, ToolOutput, TypedTool};

const ACTION: Kind = Kind::Custom(&Custom::shape(
    || json!({ "type": "string", "enum": ACTIONS }),
));

const ACTIONS: [&str; 6] = [
    "create",
    "edit",
    "patch",
    "write_file",
    "remove_file",
    "delete",
];

const LOCATION: Kind = Kind::Custom(&Custom::shape(
    || json!({ "type": "string", "enum": ["workspace", "user"] }),
));

/// The tool `skill_manage`. Writes whole files in one step, in skill folders only, and declares its writes.
/// Does not write text that contains a known secret.
pub(super) struct SkillManage {
    metadata: OperationMetadata,
    data: Option<PathBuf>,
}

impl SkillManage {
    /// Creates the tool. `data` is the user's data folder, if the user's own skills may be managed.
    pub(super) fn new(data: Option<PathBuf>) -> Self {
        // Without the data folder, there is only the workspace.
        let parameters = SkillManageArguments::PARAMETERS.iter();
        let parameters =
            parameters.filter(|parameter| data.is_some() || parameter.name != "location");
        let parameters: Vec<Parameter> = parameters.copied().collect();
        let description = "Makes, changes and deletes skills. Keep what was learnt that will be useful again: steps that work, commands, pitfalls.";
        Self {
            metadata: OperationMetadata {
                read_only: false,
                cache_class: CacheClass::Never,
                ..metadata("skill_manage", description, &parameters)
            },
            data,
        }
    }
}

/// The arguments of `skill_manage`.
#[derive(Debug, CallArguments, Deserialize)]
pub(super) struct SkillManageArguments {
    /// create: a new skill. edit: replace its SKILL.md. patch: replace one passage of a file. write_file,
    /// remove_file: its other files. delete: the whole skill.
    #[setting(kind = ACTION)]
    action: String,
    /// The skill: lower-case letters, digits, - and _, at most 64.
    name: String,
    /// create: what it does and when to use it, in a sentence or two.
    description: Option<String>,
    /// create: the instructions, Markdown. edit: the whole SKILL.md with its head. write_file: the text of the
    /// file.
    content: Option<String>,
    /// write_file, remove_file: the file, relative to the skill's folder. patch: the same; SKILL.md by default.
    file: Option<String>,
    /// patch: the passage, exactly as it is; it must occur once.
    old_text: Option<String>,
    /// patch: what stands there instead.
    new_text: Option<String>,
    /// create: for this workspace (the default), or for everything that the user does.
    #[setting(kind = LOCATION)]
    location: Option<String>,
}

#[async_trait]
impl TypedTool for SkillManage {
    type Arguments = SkillManageArguments;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, arguments: &SkillManageArguments, context: &ToolContext) -> Effects {
        let name = Some(&*arguments.name).filter(|name| is_valid_name(name));
        Effects::writing(touched(context, self.data.as_deref(), name))
    }

    fn resource_access(&self, arguments: &SkillManageArguments) -> ResourceAccess {
        let file = match &*arguments.action {
            "delete" => "",
            "create" | "edit" => SKILL_FILE,
            _ => arguments
                .file
                .as_deref()
                .filter(|file| !file.is_empty())
                .unwrap_or(SKILL_FILE),
        };
        let name = &arguments.name;
        ResourceAccess::writing(locations::paths(self.data.as_deref(), name, file))
    }

    async fn run(&self, arguments: SkillManageArguments, context: &ToolContext) -> ToolOutput {
        let (inner, data) = (context.clone(), self.data.clone());
        let done = run_blocking(move |_| {
            ManageCall {
                arguments: &arguments,
                context: &inner,
                data: data.as_deref(),
            }
            .done()
        });
        output(done.await, context)
    }
}

/// One call.
struct ManageCall<'a> {
    arguments: &'a SkillManageArguments,
    context: &'a ToolContext,
    data: Option<&'a Path>,
}

impl ManageCall<'_> {
    fn done(&self) -> Result<String, CallError> {
        let name = &*self.arguments.name;
        if !is_valid_name(name) {
            return Err(CallError::Refused(format!(
                "`{name:.80}` is no name for a skill: take lower-case letters, digits, `-` and `_`, at most 64, not beginning with `-` or `_`"
            )));
        }
        match &*self.arguments.action {
            "create" => self.create(name),
            "edit" => self.edit(&self.existing(name)?),
            "patch" => self.patch(&self.existing(name)?),
            "write_file" => self.write_file(&self.existing(name)?),
            "remove_file" => self.remove_file(&self.existing(name)?),
            "delete" => delete(&self.existing(name)?),
            _ => Err(CallError::Refused(format!(
                "`action` must be one of: {}",
                ACTIONS.join(", ")
            ))),
        }
    }

    fn existing(&self, name: &str) -> Result<Skill, CallError> {
        existing(name, self.context, self.data)
    }

    /// Returns the value of the argument `name`, which this action needs.
    fn required<'a>(&self, value: Option<&'a str>, name: &str) -> Result<&'a str, CallError> {
        value.ok_or_else(|| {
            CallError::Refused(format!("`{}` needs `{name}`", self.arguments.action))
        })
    }

    fn content(&self) -> Result<&str, CallError> {
        self.required(self.arguments.content.as_deref(), "content")
    }

    fn create(&self, name: &str) -> Result<String, CallError> {
        let content = self.content()?;
        let whole = if front_matter::has_front_matter(content) {
            front_matter::read(content)?;
            content.to_owned()
        } else {
            let description =
                self.required(self.arguments.description.as_deref(), "description")?;
            if description.trim().is_empty() {
                return Err(CallError::Refused(
                    "`description` is empty: describe what the skill does and when to use it"
                        .to_owned(),
                ));
            }
            front_matter::write(name, description, content)
        };
        let root = self.root()?;
        // Of two skills with one name, the second would never be used.
        for other in roots(&self.context.workspace, self.data, &self.context.witness) {
            if other.owner == root.owner && other.skill(name, &self.context.witness)?.is_some() {
                return Err(CallError::Refused(format!(
                    "the skill `{name}` is there already ({}): change it with `edit` or `patch`",
                    root.owner.name()
                )));
            }
        }
        let resolved = root.resolved(&format!("{name}/{SKILL_FILE}"))?;
        if resolved.found != PathKind::Nothing {
            return Err(CallError::Refused(format!(
                "`{name}/{SKILL_FILE}` is there, but it is no file"
            )));
        }
        self.write(&resolved, &whole)?;
        Ok(format!(
            "Created the skill `{name}` in {}.",
            self.context
                .workspace
                .shown(resolved.real.parent().unwrap_or(&resolved.real))
        ))
    }

    /// Returns the directory for a new skill.
    fn root(&self) -> Result<SkillRoot, CallError> {
        match (self.arguments.location.as_deref(), self.data) {
            (Some("user"), Some(data)) => std::fs::create_dir_all(data)
                .and_then(|()| user_root(data))
                .map_err(|error| {
                    CallError::File(
                        "the user's folder for skills cannot be used".to_owned(),
                        error,
                    )
                }),
            (Some("user"), None) => Err(CallError::Refused(
                "skills of the user cannot be changed here: leave `location` out".to_owned(),
            )),
            _ => roots(&self.context.workspace, None, &self.context.witness)
                .into_iter()
                .find(|root| root.owner == Owner::Workspace)
                .ok_or_else(|| {
                    CallError::Refused("the workspace has no place for skills".to_owned())
                }),
        }
    }

    fn edit(&self, skill: &Skill) -> Result<String, CallError> {
        let content = self.content()?;
        front_matter::read(content)?;
        // Only now that its head is known to be readable: without one, the skill could not be used.
        self.write(&skill.file(SKILL_FILE)?, content)?;
        Ok(format!("Replaced the SKILL.md of `{}`.", skill.name))
    }

    fn patch(&self, skill: &Skill) -> Result<String, CallError> {
        let old = self.required(self.arguments.old_text.as_deref(), "old_text")?;
        let new = self.required(self.arguments.new_text.as_deref(), "new_text")?;
        let file = self.arguments.file.as_deref().unwrap_or(SKILL_FILE);
        if old.is_empty() {
            return Err(CallError::Refused(
                "`old_text` is empty: give the passage to replace".to_owned(),
            ));
        }
        let before = skill.text(file, &self.context.witness)?;
        match before.matches(old).count() {
            1 => {}
            0 => {
                return Err(CallError::Refused(format!(
                    "`old_text` does not occur in `{file}`: read it again with skill_view"
                )));
            }
            count => {
                return Err(CallError::Refused(format!(
                    "`old_text` occurs {count} times in `{file}`: take in more of what surrounds it"
                )));
            }
        }
        let after = before.replacen(old, new, 1);
        let resolved = skill.file(file)?;
        if resolved.real == skill.file(SKILL_FILE)?.real {
            front_matter::read(&after)?;
        }
        self.write(&resolved, &after)?;
        Ok(format!("Patched `{file}` of `{}`.", skill.name))
    }

    fn write_file(&self, skill: &Skill) -> Result<String, CallError> {
        let file = self.required(self.arguments.file.as_deref(), "file")?;
        let content = self.content()?;
        let resolved = skill.file(file)?;
        match resolved.found {
            PathKind::Nothing | PathKind::File => {}
            PathKind::Directory => {
                return Err(CallError::Refused(format!("`{file}` is a directory")));
            }
            PathKind::Special(what) => {
                return Err(CallError::Refused(format!("`{file}` is {what}, no file")));
            }
        }
        if resolved.real == skill.file(SKILL_FILE)?.real {
            front_matter::read(content)?;
        }
        self.write(&resolved, content)?;
        Ok(format!("Wrote `{file}` of `{}`.", skill.name))
    }

    fn remove_file(&self, skill: &Skill) -> Result<String, CallError> {
        let file = self.required(self.arguments.file.as_deref(), "file")?;
        let resolved = skill.file(file)?;
        if resolved.real == skill.file(SKILL_FILE)?.real {
            return Err(CallError::Refused(
                "a skill cannot be without its SKILL.md: `delete` removes the whole skill"
                    .to_owned(),
            ));
        }
        match resolved.found {
            PathKind::File => {}
            PathKind::Nothing => {
                return Err(CallError::Refused(format!(
                    "the skill `{}` has no file `{file}`",
                    skill.name
                )));
            }
            _ => return Err(CallError::Refused(format!("`{file}` is no file"))),
        }
        writing::remove(&resolved).map_err(|error| CallError::File(format!("`{file}`"), error))?;
        Ok(format!("Removed `{file}` from `{}`.", skill.name))
    }

    fn write(
        &self,
        resolved: &crate::workspace::ResolvedPath,
        text: &str,
    ) -> Result<(), CallError> {
        if self.context.secret_set.occurs_in(text.as_bytes()) {
            return Err(CallError::Refused(
                "this holds a secret, and nothing that is written may: leave it out".to_owned(),
            ));
        }
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(CallError::Refused(format!(
                "a file of a skill has at most {MAX_FILE_BYTES} bytes, and this has {}",
                text.len()
            )));
        }
        writing::write(resolved, text)
            .map_err(|error| CallError::File(resolved.requested.display().to_string(), error))
    }
}

fn delete(skill: &Skill) -> Result<String, CallError> {
    if skill.resolved.requested != skill.resolved.real {
        return Err(CallError::Refused(format!(
            "the skill `{}` is reached through a symbolic link: remove it by hand",
            skill.name
        )));
    }
    // Does not follow links; the path has been checked to be in the folder of skills.
    std::fs::remove_dir_all(&skill.resolved.real).map_err(|error| {
        CallError::File(
            format!("the skill `{}` could not be deleted", skill.name),
            error,
        )
    })?;
    Ok(format!("Deleted the skill `{}`.", skill.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn skill_location_is_required_only_if_ambiguous() {
        let properties = |data: Option<PathBuf>| -> Value {
            SkillManage::new(data).metadata.parameters.schema()["properties"].clone()
        };
        assert!(properties(None).get("location").is_none());
        assert!(properties(Some("/data".into())).get("location").is_some());
    }
}
