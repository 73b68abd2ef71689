//! Imports of modules that helpers replace, and parts that a replacement lacks.

use cachalot_core::text::word_list;
use ruff_python_ast::{Expr, ExprAttribute, Stmt};
use ruff_text_size::Ranged;

use super::super::edits::Edit;
use super::super::shims;
use super::super::unsupported::NO_ACCESS;
use super::{Writer, span};

/// Parts of `os` and `os.path` that access files.
const FILES: [&str; 22] = word_list(
    "abspath access chdir exists expanduser getcwd getmtime getsize isdir isfile islink listdir \
     makedirs mkdir realpath remove rename rmdir scandir stat unlink walk",
);

impl<'a> Writer<'a> {
    pub(super) fn import(&mut self, statement: &'a Stmt) {
        let (start, end) = span(statement);
        match statement {
            Stmt::Import(it) => {
                if !it
                    .names
                    .iter()
                    .any(|alias| shims::module(&alias.name).is_some())
                {
                    return;
                }
                let mut parts = Vec::new();
                for alias in &it.names {
                    match (shims::module(&alias.name), &alias.asname) {
                        (Some(module), asname) => {
                            self.out.helpers.insert(module.helper);
                            let name = asname
                                .as_ref()
                                .map_or(alias.name.as_str(), |it| it.as_str());
                            if name == "os.path" {
                                self.out.helpers.insert("os");
                                parts.push("os = __os__".to_owned());
                            } else if let Some((package, part)) = name.split_once('.') {
                                self.out.helpers.insert("module");
                                parts.push(format!(
                                    "{package} = __make_module__('{package}', {{'{part}': {}}})",
                                    module.object
                                ));
                            } else {
                                parts.push(format!("{name} = {}", module.object));
                            }
                        }
                        (None, Some(asname)) => {
                            parts.push(format!("import {} as {asname}", alias.name))
                        }
                        (None, None) => parts.push(format!("import {}", alias.name)),
                    }
                }
                self.replace(start, end, parts.join("; "));
            }
            Stmt::ImportFrom(it) => {
                let Some(name) = it.module.as_ref().filter(|_| it.level == 0) else {
                    return;
                };
                if name.as_str() == "json" && self.reads_json {
                    for alias in it
                        .names
                        .iter()
                        .filter(|alias| alias.name.as_str() == "loads")
                    {
                        let bound = alias.asname.as_ref().unwrap_or(&alias.name);
                        self.need_loads(start);
                        self.insert(end, format!("; {bound} = __loads__"));
                    }
                }
                let mut parts = Vec::new();
                for alias in &it.names {
                    let bound = alias.asname.as_ref().unwrap_or(&alias.name);
                    let nested = format!("{name}.{}", alias.name);
                    if let Some(module) = shims::module(&nested) {
                        self.out.helpers.insert(module.helper);
                        parts.push(format!("{bound} = {}", module.object));
                    } else if let Some(module) = shims::module(name) {
                        self.out.helpers.insert(module.helper);
                        if !module.has(&alias.name) {
                            self.refuse(
                                start,
                                format!("`{}` of the module `{name}`", alias.name),
                                None,
                            );
                        }
                        parts.push(format!("{bound} = {}.{}", module.object, alias.name));
                    }
                }
                if !parts.is_empty() && parts.len() == it.names.len() {
                    let lines = self.text(start, end).matches('\n').count();
                    let text = parts.join("; ");
                    if lines > 0 {
                        // A backslash continues the line; no statement follows it on these lines.
                        self.edits.push(Edit {
                            start,
                            end,
                            text: format!("{text}; ({}None)", "\n".repeat(lines)),
                        });
                    } else {
                        self.replace(start, end, text);
                    }
                } else if !parts.is_empty() {
                    self.refuse(
                        start,
                        format!("this import from `{name}`"),
                        Some("import the names one by one"),
                    );
                }
            }
            _ => {}
        }
    }

    /// Rejects a part of a module that its replacement lacks.
    pub(super) fn part_of_module(&mut self, it: &'a ExprAttribute) {
        let is_os = |owner: &str| self.aliases.get(owner).is_some_and(|module| module == "os");
        let name = match &*it.value {
            Expr::Name(owner) => self.aliases.get(owner.id.as_str()).cloned(),
            Expr::Attribute(path) if path.attr.as_str() == "path" => match &*path.value {
                Expr::Name(owner) if is_os(&owner.id) => Some("os.path".to_owned()),
                _ => None,
            },
            _ => None,
        };
        let Some(name) = name else { return };
        if shims::module(&name).is_none_or(|module| module.has(&it.attr)) {
            return;
        }
        let whole = format!("`{name}.{}`", it.attr);
        let what = match it.attr.as_str() {
            "environ" | "getenv" if name == "os" => {
                format!("{NO_ACCESS} the environment ({whole})")
            }
            attribute if name.starts_with("os") && FILES.contains(&attribute) => {
                format!("{NO_ACCESS} files ({whole})")
            }
            _ => whole,
        };
        self.refuse(it.start().to_usize(), what, None);
    }
}
