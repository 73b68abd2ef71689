//! Reads the work of nodes: inline code, actions, steps, loops, fan-outs.

use std::sync::Arc;

use cachalot_core::Problem;
use cachalot_core::config::Settings as _;
use cachalot_core::suggest::{did_you_mean, nearest};
use cachalot_core::tree::{self, MapEntry, NodeKind, Section};

use super::agent::{FanOut, InlineCode, Node, Output, Work};
use super::language::{Language, PythonRunner};
use super::node_keys::{ExpressionRun, LANGUAGES, LuaRun, NODE, TYPES, WORK_KEYS};
use super::nodes::{NOTHING, NodeLevel, NodeReader};
use crate::action::Action;
use crate::actions::check_arguments;
use crate::script::{self, Script, lua, template_in, with_constants};
use crate::template::{Condition, LateArgument, Prepared, TemplateUse, is_literal};
use crate::{Registry, codes};

/// Inline code as written.
struct CodeBlock {
    source: String,
    /// The node of the file that contains the source.
    written: tree::Node,
    language: Language,
    /// The field that gets the result.
    output_key: Option<String>,
}

/// True if a block starts with the line `-- lua`, which marks its language if nothing else sets it.
fn is_marked_as_lua(source: &str) -> bool {
    source
        .trim_start()
        .strip_prefix("--")
        .and_then(|rest| rest.lines().next())
        .is_some_and(|rest| rest.trim() == "lua")
}

/// True unless the file names another language, which [`NodeReader::check_language`] reports: its code is not checked
/// as Python.
pub(super) fn is_known(language: Option<&str>) -> bool {
    language.is_none_or(|name| LANGUAGES.contains(&name))
}

/// Returns the value of an unknown key of a node that is a misspelling of `key`.
fn misspelled<'a>(section: &Section<'a>, key: &str) -> Option<&'a tree::Node> {
    let names = || NODE.parameters().map(|parameter| parameter.name);
    let is_misspelled = |entry: &&MapEntry| {
        NODE.parameter(&entry.key).is_none() && nearest(&entry.key, names()) == Some(key)
    };
    let found = section.entries().iter().find(is_misspelled);
    found.map(|entry| &entry.value)
}

impl NodeReader<'_> {
    /// Reads the work of a node, and the output field that the work itself names.
    pub(super) fn work(
        &mut self,
        section: &mut Section<'_>,
        level: NodeLevel,
        language: Option<&str>,
    ) -> (Work, Option<String>) {
        let own_language = section.node("language");
        let language = own_language.and_then(tree::Node::as_text).or(language);
        self.check_language(own_language);
        let kind = section.present("type");
        match (kind.and_then(tree::Node::as_text), level) {
            (None, _) if kind.is_none() => {
                section.boolean("fan_in", &mut self.problems);
                self.simple(section, language)
            }
            (Some("while_loop"), NodeLevel::Node) => (self.while_loop(section, language), None),
            (Some("dynamic_parallel"), NodeLevel::Node) => (self.fan_out(section, language), None),
            (Some(name), NodeLevel::Step) if TYPES.contains(&name) => {
                self.refuse(
                    kind,
                    codes::UNSUPPORTED,
                    format!("a step cannot be a `{name}`"),
                    "make it a node of its own",
                );
                self.claim_all(section)
            }
            (Some(name), _) => {
                let (code, help) = match name {
                    "matrix" | "parallel_each" | "subgraph" => (
                        codes::UNSUPPORTED,
                        "`dynamic_parallel` runs a branch per item".to_owned(),
                    ),
                    _ => (codes::BAD_VALUE, did_you_mean(name, TYPES)),
                };
                self.refuse(
                    kind,
                    code,
                    format!("there is no type of node `{name}`"),
                    &help,
                );
                self.claim_all(section)
            }
            (None, _) => {
                self.problems
                    .extend(kind.map(|node| node.wrong_type("`type`", "text")));
                self.claim_all(section)
            }
        }
    }

    fn refuse(
        &mut self,
        node: Option<&tree::Node>,
        code: &'static str,
        message: String,
        help: &str,
    ) {
        let problem = Problem::new(code, message).help(help);
        self.problems.push(match node {
            Some(node) => problem.at(&node.place),
            None => problem,
        });
    }

    /// Skips a node that cannot be understood, so that its keys are not reported as unknown.
    fn claim_all(&mut self, section: &mut Section<'_>) -> (Work, Option<String>) {
        let _ = section.take_rest();
        NOTHING
    }

    pub(super) fn check_language(&mut self, node: Option<&tree::Node>) {
        let Some(node) = node.filter(|node| !node.is_null()) else {
            return;
        };
        match node.as_text() {
            Some("python" | "python3" | "lua") => {}
            Some(other @ "prolog") => {
                self.refuse(
                    Some(node),
                    codes::UNSUPPORTED,
                    format!("there is no {other} here"),
                    "write the block in Python or Lua",
                );
            }
            Some(other) => {
                let help = did_you_mean(other, LANGUAGES);
                self.refuse(
                    Some(node),
                    codes::BAD_VALUE,
                    format!("there is no language `{other}`"),
                    &help,
                );
            }
            None => self
                .problems
                .push(node.wrong_type("`language`", "`python`, `python3` or `lua`")),
        }
    }

    /// Reads inline code, an action, or steps.
    fn simple(
        &mut self,
        section: &mut Section<'_>,
        language: Option<&str>,
    ) -> (Work, Option<String>) {
        let mut entries: Vec<&MapEntry> = WORK_KEYS
            .iter()
            .filter_map(|way| section.entry(way))
            .filter(|entry| !entry.value.is_null())
            .collect();
        entries.sort_by_key(|way| way.key_place.start);
        if let [first, second, ..] = entries.as_slice() {
            let message = format!("`{}` and `{}` in one node", first.key, second.key);
            let problem = Problem::new(codes::CONFLICTING_WORK, message).at(&second.key_place);
            self.problems
                .push(problem.help("a node does one thing: make two nodes, or use `steps`"));
        }
        if entries.is_empty() && section.has("action") {
            return self.action_without_uses(section);
        }
        if !entries.iter().any(|way| way.key == "uses") {
            self.refuse_with(section);
        }
        let Some(way) = entries.first() else {
            return NOTHING;
        };
        match way.key.as_str() {
            "uses" => {
                // The unknown key is reported as such; its value is checked nevertheless.
                let with = section
                    .present("with")
                    .or_else(|| misspelled(section, "with"));
                let name = way.value.as_text().unwrap_or_default();
                let loop_action = self.loop_action(name, &way.value, with, language);
                (
                    loop_action.unwrap_or_else(|| self.action(&way.value, with)),
                    None,
                )
            }
            "steps" => (Work::Steps(self.steps(section, "steps", language)), None),
            _ => self.run(way, language),
        }
    }

    /// Warns about a node with `action` in place of `uses`. In the reference implementation such a node
    /// does nothing.
    fn action_without_uses(&mut self, section: &mut Section<'_>) -> (Work, Option<String>) {
        if let Some(entry) = section.entry("action") {
            let help = match entry.value.as_text() {
                Some(name) => format!("to run it, write `uses: {name}`"),
                None => "to run an action, write `uses: NAME`".to_owned(),
            };
            let message = "`action` in a node has no effect: this node does nothing";
            let problem = Problem::warning(codes::NO_EFFECT, message).at(&entry.key_place);
            self.problems.push(problem.help(help));
        }
        self.claim_all(section)
    }

    pub(super) fn refuse_with(&mut self, section: &mut Section<'_>) {
        if let Some(entry) = section.entry("with")
            && misspelled(section, "uses").is_none()
        {
            self.problems.push(
                Problem::new(codes::MISSING_KEY, "`with` without `uses`")
                    .at(&entry.key_place)
                    .help("name the action that takes these arguments: `uses: …`"),
            );
        }
    }

    fn run(&mut self, way: &MapEntry, language: Option<&str>) -> (Work, Option<String>) {
        if !is_known(language) {
            return NOTHING;
        }
        let code = match &way.value.kind {
            NodeKind::Text(source) => Some(CodeBlock {
                source: source.clone(),
                written: way.value.clone(),
                language: match language {
                    Some("lua") => Language::Lua,
                    None if is_marked_as_lua(source) => Language::Lua,
                    _ => self.python(language),
                },
                output_key: None,
            }),
            NodeKind::Map(_) => self.typed_run(&way.value, language),
            _ => {
                self.problems
                    .push(way.value.wrong_type(&format!("`{}`", way.key), "text"));
                None
            }
        };
        let Some(code) = code else {
            return NOTHING;
        };
        let script = Script {
            source: code.source,
            first_line: code.written.text_first_line(self.source),
        };
        let language = code.language;
        let script = self.code(script, language, &code.written);
        (Work::Run { script, language }, code.output_key)
    }

    /// Returns the language of Python code: `python3` if the step, the file or the run asks for it.
    pub(super) fn python(&self, language: Option<&str>) -> Language {
        match (language, self.runner) {
            (Some("python3"), _) | (_, PythonRunner::Python3) => Language::Python3,
            (_, PythonRunner::Auto | PythonRunner::Embedded) => Language::Python,
        }
    }

    /// Returns true if the embedded interpreter runs a language.
    fn is_embedded_python(&self, language: Language) -> bool {
        let auto_is_python3 = self.context.python.auto_is_python3;
        language == Language::Python && !(self.runner == PythonRunner::Auto && auto_is_python3())
    }

    /// Warns about templates in code, because code is not rendered.
    fn warn_of_templates(&mut self, script: &Script, node: &tree::Node) {
        let is_variable = |name: &str| self.variables.contains_key(name);
        let Some((template, line)) = template_in(&script.source, is_variable) else {
            return;
        };
        let line = script.first_line.saturating_add(line - 1);
        let place = self.templates.line(&node.place, line);
        let message = format!("`{template}` in code is not rendered");
        let problem = Problem::warning(codes::TEMPLATE_IN_CODE, message)
            .at(&place.unwrap_or_else(|| node.place.clone()));
        let help = "read the value in Python: `state[\"x\"]`, `variables[\"x\"]`; secrets are for the arguments of actions";
        self.problems.push(problem.help(help));
    }

    /// Returns a block with the constants of the file. Reports code that the block's runner would refuse,
    /// as far as its text shows, and templates in Python.
    pub(super) fn code(
        &mut self,
        mut script: Script,
        language: Language,
        written: &tree::Node,
    ) -> Script {
        if language != Language::Lua {
            let is_variable = |name: &str| self.variables.contains_key(name);
            script.source = with_constants(script.source, is_variable);
            self.warn_of_templates(&script, written);
        }
        self.check_code(&script, language, written);
        self.scripts.push(InlineCode {
            script: script.clone(),
            language,
            place: written.place.clone(),
        });
        script
    }

    fn check_code(&mut self, script: &Script, language: Language, written: &tree::Node) {
        let checked = match language {
            Language::Lua => lua::check(&script.source, script.first_line),
            _ if self.is_embedded_python(language) => {
                script::check(&script.source, script.first_line)
            }
            Language::Python | Language::Python3 => {
                script::check_syntax(&script.source, script.first_line)
            }
        };
        let Err(failure) = checked else { return };
        let code = match failure.kind {
            "script_unsupported" => codes::SCRIPT_UNSUPPORTED,
            _ => codes::SCRIPT_SYNTAX,
        };
        let line = failure
            .line
            .filter(|line| *line != written.place.line)
            .and_then(|line| self.templates.line(&written.place, line));
        let (message, help) = match failure.message.split_once("; ") {
            Some((message, help)) => (message, help),
            None => (failure.message.as_str(), "correct the block"),
        };
        let problem =
            Problem::new(code, message).at(&line.unwrap_or_else(|| written.place.clone()));
        self.problems.push(problem.help(help));
    }

    /// Reads `run: {type: lua, code}`, or `run: {type: expression, value, output_key}` for the value of
    /// one Python expression.
    fn typed_run(&mut self, node: &tree::Node, language: Option<&str>) -> Option<CodeBlock> {
        let mut section = Section::from_node(node, "`run`", &mut self.problems)?;
        match section.required_text("type", &mut self.problems)? {
            "expression" => {
                let run = ExpressionRun::read(node, &mut self.problems)?;
                Some(CodeBlock {
                    source: format!("return ({})", run.value.as_text()?.trim()),
                    written: run.value,
                    language: self.python(language),
                    output_key: run.output_key,
                })
            }
            "lua" => {
                let run = LuaRun::read(node, &mut self.problems)?;
                Some(CodeBlock {
                    source: run.code.as_text()?.to_owned(),
                    written: run.code,
                    language: Language::Lua,
                    output_key: None,
                })
            }
            other => {
                let code = match other {
                    "prolog" => codes::UNSUPPORTED,
                    _ => codes::BAD_VALUE,
                };
                self.refuse(
                    section.node("type"),
                    code,
                    format!("there is no `{other}` here"),
                    "write `expression` or `lua`, or give `run` the code as text",
                );
                None
            }
        }
    }

    /// Reads the action that `uses` names, with its arguments.
    pub(super) fn action(&mut self, uses: &tree::Node, with: Option<&tree::Node>) -> Work {
        let Some(name) = uses.as_text() else {
            self.problems
                .push(uses.wrong_type("`uses`", "the name of an action"));
            return Work::Nothing;
        };
        let Some(action) = self.registry.get(name) else {
            // Reports the problems of the arguments.
            let _ = self.arguments(with, &[]);
            let problem = self.registry.unknown(name);
            self.problems.push(problem.at(&uses.place));
            return Work::Nothing;
        };
        let completed = self.completed(uses, with);
        let with = completed.as_ref().or(with);
        self.problems
            .extend(check_arguments(action.metadata(), with, &uses.place));
        let checked = action.check(with, self.registry).into_iter();
        self.problems
            .extend(checked.map(|problem| match problem.place {
                Some(_) => problem,
                None => problem.at(&uses.place),
            }));
        let late = late_arguments(&**action, with, self.registry);
        Work::Action {
            action: Arc::clone(action),
            with: self.arguments(with, &late),
        }
    }

    fn arguments(&mut self, with: Option<&tree::Node>, late: &[LateArgument]) -> Prepared {
        match with {
            Some(with) => self
                .templates
                .prepare_arguments(with, late, &mut self.problems),
            None => Prepared::empty_mapping(),
        }
    }

    fn while_loop(&mut self, section: &mut Section<'_>, language: Option<&str>) -> Work {
        let condition = match section.required("condition", &mut self.problems) {
            Some(node) => self.condition(node, TemplateUse::PLAIN).of_loop(),
            None => Condition::always(false),
        };
        section.required("max_iterations", &mut self.problems);
        let max_iterations = section.integer("max_iterations", 1..=1_000, &mut self.problems);
        section.required("body", &mut self.problems);
        let body = self.steps(section, "body", language);
        Work::While {
            condition,
            max_iterations: max_iterations.map_or(1, |most| u32::try_from(most).unwrap_or(1)),
            body,
        }
    }

    fn fan_out(&mut self, section: &mut Section<'_>, language: Option<&str>) -> Work {
        let items = match section.required("items", &mut self.problems) {
            Some(node) => self.items(node),
            None => Prepared::empty_mapping(),
        };
        let item = section
            .text("item_var", &mut self.problems)
            .unwrap_or("item")
            .to_owned();
        let index = section
            .text("index_var", &mut self.problems)
            .unwrap_or("index")
            .to_owned();
        let concurrency = section.integer("max_concurrency", 1..=10_000, &mut self.problems);
        let fail_fast = section
            .boolean("fail_fast", &mut self.problems)
            .unwrap_or(false);
        // The node where the branches meet is read with the flow.
        section.claim("fan_in");
        let branch = self.branch(section, language);
        Work::FanOut(Box::new(FanOut {
            items,
            item,
            index,
            branch,
            concurrency: concurrency.and_then(|most| usize::try_from(most).ok()),
            fail_fast,
        }))
    }

    fn items(&mut self, node: &tree::Node) -> Prepared {
        let is_list = matches!(&node.kind, NodeKind::List(_));
        let is_template = node.as_text().is_some_and(|text| !is_literal(text));
        if !is_list && !is_template {
            let problem = node.wrong_type("`items`", "a list or a template of one");
            self.problems.push(problem);
        }
        self.prepared(node, TemplateUse::PLAIN)
    }

    /// Reads the work of each branch: `action`, or the same keys as any node.
    fn branch(&mut self, section: &mut Section<'_>, language: Option<&str>) -> Node {
        let place = section.place().clone();
        let action = section.present("action");
        let subgraph = section.present("subgraph");
        let entries = WORK_KEYS
            .iter()
            .filter(|way| section.present(way).is_some())
            .count()
            + usize::from(action.is_some())
            + usize::from(subgraph.is_some());
        if entries != 1 {
            let message = if entries == 0 {
                "a fan-out whose branches do nothing"
            } else {
                "a fan-out whose branches do more than one thing"
            };
            let help = "give it exactly one of `action`, `steps`, `run`, `uses` and `subgraph`";
            let problem = Problem::new(codes::CONFLICTING_WORK, message).at(&place);
            self.problems.push(problem.help(help));
        }
        let does = |work| Node::new("", &place, work);
        if let Some(file) = subgraph {
            let work = self.subgraph(section, file);
            return does(work);
        }
        if section.has("input")
            && let Some(entry) = section.entry("input")
        {
            self.problems.push(
                Problem::new(codes::MISSING_KEY, "`input` without `subgraph`")
                    .at(&entry.key_place)
                    .help("name the file that begins with it: `subgraph: ./FILE.yaml`"),
            );
        }
        match action.map(|action| (action, &action.kind)) {
            Some((node, NodeKind::Map(_))) => match self.node(node, NodeLevel::Step, language) {
                Some(branch) => branch,
                None => does(Work::Nothing),
            },
            Some((node, _)) => {
                let work = self.action(node, section.present("with"));
                does(work)
            }
            None => {
                let (work, output_key) = self.simple(section, language);
                Node {
                    output: output_key.map_or(Output::Merge, Output::Key),
                    ..does(work)
                }
            }
        }
    }
}

/// Returns the arguments that an action renders itself, and those of the action that it wraps.
fn late_arguments(
    action: &dyn Action,
    with: Option<&tree::Node>,
    registry: &Registry,
) -> Vec<LateArgument> {
    let about = action.metadata();
    let parameters = about.parameters.table().iter();
    let mut late: Vec<LateArgument> = parameters
        .filter(|parameter| !parameter.late_names.is_empty())
        .map(|parameter| LateArgument::Argument(parameter.name, parameter.late_names))
        .collect();
    let wrapped = with.filter(|_| about.has_name("cache.wrap"));
    let name = wrapped.and_then(|with| with.get("action")?.as_text());
    if let Some(wrapped) = name.and_then(|name| registry.get(name)) {
        let args = with.and_then(|with| with.get("args"));
        let inside = late_arguments(&**wrapped, args, registry);
        if !inside.is_empty() {
            late.push(LateArgument::Inside("args", inside));
        }
    }
    late
}
