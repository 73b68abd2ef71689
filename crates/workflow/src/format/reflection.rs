//! Reads `reflection.loop` and `retry.loop`, actions that run other work in rounds.

use cachalot_core::Problem;
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{self, MapEntry, NodeKind, Section};

use super::Language;
use super::agent::{Evaluator, Node, Reflection, Retries, Target, Work};
use super::nodes::NodeReader;
use super::work::is_known;
use crate::actions::check_arguments;
use crate::actions::reflection::{EVALUATOR_PROMPT, LOOP, RETRY};
use crate::codes;
use crate::script::Script;
use crate::template::{Prepared, TemplateUse};

/// Python code that defines the names available beside `state`. It is one extra line before the block, so
/// the first line number of the block is reduced by one.
const PYTHON_PRELUDE: &str = "output = state.get('output'); reflection_output = state.get('reflection_output'); reflection_errors = state.get('reflection_errors', []); reflection_iteration = state.get('reflection_iteration', 0); result = None\n";

/// Python code before it, for a block that uses the module without importing it. The embedded Python does
/// not have it.
const IMPORT_RE: &str = "import re; ";

/// Python code that returns `result`, or else `output` if the block changed it.
const PYTHON_EPILOGUE: &str = "\nreturn result if result is not None else (output if output != state.get('output') else None)\n";

/// The same definitions for Lua, on the first line of the block. A Lua block returns its result itself.
const LUA_PRELUDE: &str = "local output = state.output; ";

impl NodeReader<'_> {
    /// Reads the arguments of an action that runs other work. Returns `None` if `name` is not such an
    /// action.
    pub(super) fn loop_action(
        &mut self,
        name: &str,
        uses: &tree::Node,
        with: Option<&tree::Node>,
        language: Option<&str>,
    ) -> Option<Work> {
        let is_reflection = LOOP.has_name(name);
        let about = match is_reflection {
            true => &LOOP,
            false if RETRY.has_name(name) => &RETRY,
            false => return None,
        };
        let problems = check_arguments(about, with, &uses.place);
        if !problems.is_empty() {
            self.problems.extend(problems);
            return Some(Work::Nothing);
        }
        let Some(with) = with.filter(|with| matches!(with.kind, NodeKind::Map(_))) else {
            let given = with.unwrap_or(uses);
            let shown = format!("the arguments of `{name}`");
            self.problems.push(given.wrong_type(&shown, "a mapping"));
            return Some(Work::Nothing);
        };
        let read = if is_reflection {
            self.reflection(with, language)
        } else {
            self.retries(with)
        };
        Some(read.unwrap_or(Work::Nothing))
    }

    fn reflection(&mut self, with: &tree::Node, language: Option<&str>) -> Option<Work> {
        let generator = self.part(with.get("generator")?, "generator", language);
        let corrector = with.get("corrector").filter(|node| !node.is_null());
        let corrector = corrector.map(|node| self.part(node, "corrector", language));
        let evaluator = self.evaluator(with.get("evaluator")?, language);
        Some(Work::Reflection(Box::new(Reflection {
            generator: generator?,
            evaluator: evaluator?,
            corrector: match corrector {
                None => None,
                Some(read) => Some(read?),
            },
            limits: self.limits(with, &["max_iterations", "on_failure"]),
        })))
    }

    fn retries(&mut self, with: &tree::Node) -> Option<Work> {
        let validate = self.step_of("validate", with.get("validate")?, with.get("validate_args"));
        let correct = self.target(
            with.get("correct")?,
            codes::GOTO_UNDEFINED,
            "`correct`",
            false,
        );
        let Target::Node(correct) = correct? else {
            return None;
        };
        Some(Work::Retries(Box::new(Retries {
            validate,
            correct,
            limits: self.limits(with, &["max_retries", "retry_delay"]),
        })))
    }

    /// Prepares the arguments that are rendered when the loop starts.
    fn limits(&mut self, with: &tree::Node, keys: &[&str]) -> Prepared {
        let node = filtered(with, |key| keys.contains(&key));
        self.prepared(&node, TemplateUse::ARGUMENTS)
    }

    /// Creates a step that runs an action.
    fn step_of(&mut self, name: &str, uses: &tree::Node, with: Option<&tree::Node>) -> Node {
        let work = self.action(uses, with);
        Node::new(name, &uses.place, work)
    }

    /// Reads `{action, …}` or `{run, language}`.
    fn part(
        &mut self,
        node: &tree::Node,
        name: &'static str,
        language: Option<&str>,
    ) -> Option<Node> {
        match (node.get("action"), node.get("run")) {
            (Some(action), None) => {
                let arguments = match node.get("with") {
                    Some(with) => with.clone(),
                    None => filtered(node, |key| key != "action"),
                };
                Some(self.step_of(name, action, Some(&arguments)))
            }
            (None, Some(run)) => {
                let mut section = Section::from_node(node, name, &mut self.problems)?;
                section.claim("run");
                section.claim("language");
                section.finish(&mut self.problems);
                self.block(node, run, name, language)
            }
            _ => {
                let message = format!("the {name} has not exactly one of `action` and `run`");
                let problem = Problem::new(codes::CONFLICTING_WORK, message).at(&node.head());
                self.problems
                    .push(problem.help("give it an action with its arguments, or inline code"));
                None
            }
        }
    }

    fn block(
        &mut self,
        node: &tree::Node,
        run: &tree::Node,
        name: &'static str,
        language: Option<&str>,
    ) -> Option<Node> {
        let Some(source) = run.as_text() else {
            self.problems.push(run.wrong_type("`run`", "text"));
            return None;
        };
        let own = node.get("language");
        self.check_language(own);
        let language = own.and_then(tree::Node::as_text).or(language);
        if !is_known(language) {
            return None;
        }
        let language = match language {
            Some("lua") => Language::Lua,
            other => self.python(other),
        };
        let first_line = run.text_first_line(self.source);
        let script = match language {
            Language::Lua => Script {
                source: format!("{LUA_PRELUDE}{source}"),
                first_line,
            },
            Language::Python | Language::Python3 => Script {
                source: format!(
                    "{}{PYTHON_PRELUDE}{source}{PYTHON_EPILOGUE}",
                    if uses_re(source) { IMPORT_RE } else { "" }
                ),
                first_line: first_line.saturating_sub(1),
            },
        };
        let script = self.code(script, language, run);
        Some(Node::new(name, &run.place, Work::Run { script, language }))
    }

    fn evaluator(&mut self, node: &tree::Node, language: Option<&str>) -> Option<Evaluator> {
        const TYPES: [&str; 3] = ["schema", "llm", "custom"];
        let mut section = Section::from_node(node, "`evaluator`", &mut self.problems)?;
        let kind = section.text("type", &mut self.problems).unwrap_or("schema");
        let evaluator = match kind {
            "schema" => {
                let schema = section.required("schema", &mut self.problems)?;
                Some(Evaluator::Schema(
                    self.prepared(schema, TemplateUse::ARGUMENTS),
                ))
            }
            "llm" => {
                section.claim("prompt");
                section.claim("model");
                section.claim("examples");
                let arguments = question(node);
                let uses = tree::Node {
                    place: node.place.clone(),
                    kind: NodeKind::Text("llm.call".to_owned()),
                };
                Some(Evaluator::Model(self.step_of(
                    "evaluator",
                    &uses,
                    Some(&arguments),
                )))
            }
            "custom" => {
                section.claim("language");
                let run = section.required("run", &mut self.problems)?;
                self.block(node, run, "evaluator", language)
                    .map(Evaluator::Code)
            }
            other => {
                let message = format!("there is no type of evaluator `{other}`");
                let problem = Problem::new(codes::BAD_VALUE, message);
                let place = section.node("type").map_or(&node.place, |kind| &kind.place);
                self.problems
                    .push(problem.at(place).help(did_you_mean(other, &TYPES)));
                let _ = section.take_rest();
                None
            }
        };
        section.finish(&mut self.problems);
        evaluator
    }
}

/// Returns the arguments of the model call that evaluates an output.
fn question(evaluator: &tree::Node) -> tree::Node {
    let at = |kind| tree::Node {
        place: evaluator.place.clone(),
        kind,
    };
    let entry = |key: &str, value| MapEntry {
        key: key.to_owned(),
        key_place: evaluator.place.clone(),
        value,
    };
    let message = |role: &str, content: tree::Node| {
        let role = at(NodeKind::Text(role.to_owned()));
        at(NodeKind::Map(vec![
            entry("role", role),
            entry("content", content),
        ]))
    };
    let mut messages = vec![message(
        "system",
        at(NodeKind::Text(EVALUATOR_PROMPT.to_owned())),
    )];
    for example in evaluator
        .get("examples")
        .and_then(tree::Node::as_list)
        .unwrap_or_default()
    {
        if let (Some(input), Some(output)) = (example.get("input"), example.get("output")) {
            messages.push(message("user", input.clone()));
            messages.push(message("assistant", output.clone()));
        }
    }
    let prompt = evaluator.get("prompt").cloned();
    let prompt = prompt.unwrap_or_else(|| {
        at(NodeKind::Text(
            "Is this valid and correct?\n\n{{ state.reflection_output }}".to_owned(),
        ))
    });
    messages.push(message("user", prompt));
    let mut arguments = vec![entry("messages", at(NodeKind::List(messages)))];
    if let Some(model) = evaluator.get("model").filter(|model| !model.is_null()) {
        arguments.push(entry("model", model.clone()));
    }
    at(NodeKind::Map(arguments))
}

/// Returns the mapping with only the entries that `is_kept` accepts.
fn filtered(node: &tree::Node, is_kept: impl Fn(&str) -> bool) -> tree::Node {
    let entries = node.as_map().unwrap_or_default();
    tree::Node {
        place: node.place.clone(),
        kind: NodeKind::Map(
            entries
                .iter()
                .filter(|entry| is_kept(&entry.key))
                .cloned()
                .collect(),
        ),
    }
}

/// True if the text has a part of the module `re`.
fn uses_re(source: &str) -> bool {
    source.match_indices("re.").any(|(at, _)| {
        let before = source[..at].chars().next_back();
        !before.is_some_and(|character| {
            character.is_alphanumeric() || character == '_' || character == '.'
        })
    })
}
