//! The reference of commands and their arguments.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, Command};

use crate::markdown::{code, row};

/// An argument that so many commands have, with the same help, is documented once.
const COMMON: usize = 2;

/// All commands that do something, with their names.
pub(crate) struct CommandReference {
    commands: Vec<(String, Command)>,
}

impl CommandReference {
    pub(crate) fn new(mut root: Command) -> Self {
        root.build();
        let mut commands = Vec::new();
        collect(&root, "", &mut commands);
        Self { commands }
    }

    /// Returns the names and texts of the generated parts: one per command, and one for common options.
    pub(crate) fn parts(&self) -> Vec<(String, String)> {
        let common = self.common();
        let mut table = "| option | meaning |\n|---|---|\n".to_owned();
        for arg in common.values() {
            row(&mut table, &[term(arg), meaning(arg)]);
        }
        let mut parts = vec![("common options".to_owned(), table)];
        for (name, command) in &self.commands {
            parts.push((name.clone(), text(command, &common)));
        }
        parts
    }

    /// Returns the options that several commands have, by name and help.
    fn common(&self) -> BTreeMap<(String, String), Arg> {
        let mut counts: BTreeMap<_, (Arg, usize)> = BTreeMap::new();
        for (_, command) in &self.commands {
            for arg in shown(command).filter(|arg| !arg.is_positional()) {
                let counted = counts
                    .entry(identity(arg))
                    .or_insert_with(|| (arg.clone(), 0));
                counted.1 += 1;
            }
        }
        counts.retain(|_, (_, count)| *count >= COMMON);
        let common = counts.into_iter();
        common.map(|(key, (arg, _))| (key, arg)).collect()
    }
}

/// Adds the commands below `command` that do something: those without subcommands, and those with arguments of their own.
fn collect(command: &Command, before: &str, found: &mut Vec<(String, Command)>) {
    let name = format!("{before} {}", command.get_name());
    let name = name.trim_start();
    let below = command.get_subcommands();
    let below = below.filter(|below| !below.is_hide_set() && below.get_name() != "help");
    let below: Vec<_> = below.collect();
    if below.is_empty() || shown(command).next().is_some() {
        found.push((name.to_owned(), command.clone()));
    }
    for command in below {
        collect(command, name, found);
    }
}

fn shown(command: &Command) -> impl Iterator<Item = &Arg> {
    let args = command.get_arguments().filter(|arg| !arg.is_hide_set());
    args.filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version"))
}

fn identity(arg: &Arg) -> (String, String) {
    (arg.get_id().to_string(), meaning(arg))
}

/// Returns the description, the usage and the arguments of a command.
fn text(command: &Command, common: &BTreeMap<(String, String), Arg>) -> String {
    let mut command = command.clone();
    let about = command.get_about().map(sentence).unwrap_or_default();
    let usage = command.render_usage().to_string();
    let usage = usage.trim().trim_start_matches("Usage:").trim();
    // Further lines are those of its subcommands.
    let usage = usage.lines().next().unwrap_or_default();
    let usage = usage.replace("[OPTIONS] ", "").replace(" [OPTIONS]", "");
    let mut table = String::new();
    let mut elsewhere = Vec::new();
    for arg in shown(&command) {
        if common.contains_key(&identity(arg)) {
            elsewhere.extend(names(arg).into_iter().next());
        } else {
            row(&mut table, &[term(arg), meaning(arg)]);
        }
    }
    if !table.is_empty() {
        table.insert_str(0, "\n| argument | meaning |\n|---|---|\n");
    }
    let mut usage: Vec<_> = usage.lines().map(|line| code(line.trim())).collect();
    if !elsewhere.is_empty() {
        let names: Vec<_> = elsewhere.iter().map(|name| code(name)).collect();
        usage.push(format!("[common](#common-options): {}", names.join(", ")));
    }
    format!("{about} {}\n{table}", usage.join(", "))
}

/// Returns the names of an option with its value, the long one first.
fn names(arg: &Arg) -> Vec<String> {
    let long = arg.get_long().map(|long| format!("--{long}"));
    let aliases = arg.get_visible_aliases().unwrap_or_default();
    let aliases = aliases.into_iter().map(|alias| format!("--{alias}"));
    let short = arg.get_short().map(|short| format!("-{short}"));
    long.into_iter().chain(aliases).chain(short).collect()
}

/// Returns the first cell of a row: the names of an argument, and its value.
fn term(arg: &Arg) -> String {
    let value = arg.get_value_names().unwrap_or_default();
    let value: Vec<_> = value.iter().map(|name| name.as_str()).collect();
    let value = value.join(" ");
    if arg.is_positional() {
        let is_named = !value.is_empty();
        return code(if is_named {
            &value
        } else {
            arg.get_id().as_str()
        });
    }
    let takes_value = arg.get_action().takes_values();
    let is_optional = arg
        .get_num_args()
        .is_some_and(|range| range.min_values() == 0);
    let value = match (takes_value, is_optional, arg.is_require_equals_set()) {
        (false, ..) => String::new(),
        (true, true, true) => format!("[={value}]"),
        (true, true, false) => format!(" [{value}]"),
        (true, false, true) => format!("={value}"),
        (true, false, false) => format!(" {value}"),
    };
    let mut names = names(arg);
    if let Some(first) = names.first_mut() {
        first.push_str(&value);
    }
    let names: Vec<_> = names.iter().map(|name| code(name)).collect();
    names.join(", ")
}

/// Returns the help of an argument with its values and its default.
fn meaning(arg: &Arg) -> String {
    let mut text = arg
        .get_long_help()
        .or(arg.get_help())
        .map(sentence)
        .unwrap_or_default();
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let values = arg.get_possible_values();
    let values = values.iter().filter(|value| !value.is_hide_set());
    let values: Vec<_> = values.map(|value| code(value.get_name())).collect();
    if takes_value && !values.is_empty() && !text.contains(&values[0]) {
        text += &format!(" One of {}.", values.join(", "));
    }
    let defaults = arg.get_default_values().iter();
    let defaults: Vec<_> = defaults
        .map(|value| code(&value.to_string_lossy()))
        .collect();
    if takes_value && !defaults.is_empty() {
        text += &format!(" Default: {}.", defaults.join(", "));
    }
    text
}

/// Returns a help text on one line, with a full stop.
fn sentence(text: &clap::builder::StyledStr) -> String {
    let text = text.to_string();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() || text.ends_with('.') {
        text
    } else {
        format!("{text}.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_several_commands_are_documented_once() {
        let leaf = |name: &'static str| {
            let json = Arg::new("json").long("json").action(ArgAction::SetTrue);
            Command::new(name)
                .about("Do it")
                .arg(Arg::new("FILE").required(true).help("The file"))
                .arg(json.help("Print JSON"))
        };
        let kind = Arg::new("kind").long("kind").short('k');
        let kind = kind
            .value_name("KIND")
            .value_parser(["a", "b"])
            .default_value("a");
        let root = Command::new("whale").subcommands([
            leaf("one"),
            leaf("two").arg(kind.help("Its kind")),
            Command::new("more").subcommand(leaf("three")),
        ]);
        let parts = CommandReference::new(root).parts();
        let names: Vec<_> = parts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "common options",
                "whale one",
                "whale two",
                "whale more three"
            ]
        );
        assert_eq!(
            parts[0].1,
            "| option | meaning |\n|---|---|\n| `--json` | Print JSON. |\n"
        );
        assert_eq!(
            parts[2].1,
            "Do it. `whale two <FILE>`, [common](#common-options): `--json`\n\n| argument | meaning |\n|---|---|\n\
            | `FILE` | The file. |\n| `--kind KIND`, `-k` | Its kind. One of `a`, `b`. Default: `a`. |\n"
        );
    }
}
