//! Rewrites constructs that the embedded interpreter would compute differently from Python into calls of
//! helpers in front of the block ([`super::shims`]). Every line keeps its number.

use std::collections::{BTreeSet, HashMap, HashSet};

use ruff_python_ast::token::{TokenKind, Tokens};
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    CmpOp, ConversionFlag, ExceptHandler, Expr, ExprContext, ExprGenerator,
    InterpolatedStringElement, Number, Operator, Parameter, Stmt, StmtAugAssign,
};
use ruff_text_size::Ranged;

use super::diagnose::{self, NO_ACCESS};
use super::nans;
use super::shims;
use super::unsupported::Unsupported;
use super::whitespace;

/// Built-in functions that are replaced by a helper wherever they are used.
const BUILTINS: [&str; 9] = [
    "round",
    "sum",
    "hasattr",
    "getattr",
    "callable",
    "issubclass",
    "format",
    "ascii",
    "divmod",
];

/// Built-in functions that the interpreter evaluates eagerly and Python lazily.
const LAZY: [&str; 5] = ["map", "filter", "zip", "enumerate", "reversed"];

/// Functions and methods that consume their whole argument before they do anything else.
const CONSUMERS: [&str; 9] = [
    "list",
    "tuple",
    "set",
    "frozenset",
    "dict",
    "sorted",
    "sum",
    "min",
    "max",
];
const CONSUMING_METHODS: [&str; 3] = ["join", "extend", "fromkeys"];

/// Types whose methods may be called with the object as first argument.
const TYPES: [&str; 9] = [
    "str",
    "dict",
    "list",
    "set",
    "tuple",
    "bytes",
    "frozenset",
    "int",
    "float",
];

/// Methods of these types that are called on the type itself.
const OF_THE_TYPE: [&str; 4] = ["fromkeys", "maketrans", "fromhex", "from_bytes"];

/// Errors that no limitation of the interpreter raises; a handler of only these needs no guard.
const HARMLESS: [&str; 9] = [
    "KeyError",
    "IndexError",
    "ZeroDivisionError",
    "OverflowError",
    "StopIteration",
    "AssertionError",
    "UnicodeDecodeError",
    "UnicodeEncodeError",
    "FloatingPointError",
];

/// Errors that may be raised by name, without parentheses.
const ERRORS: [&str; 22] = [
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "BaseException",
    "Exception",
    "FileExistsError",
    "FileNotFoundError",
    "ImportError",
    "IndexError",
    "KeyError",
    "LookupError",
    "NameError",
    "NotImplementedError",
    "OSError",
    "OverflowError",
    "PermissionError",
    "RuntimeError",
    "StopIteration",
    "TimeoutError",
    "TypeError",
    "ValueError",
    "ZeroDivisionError",
];

/// Flags of `re`.
const FLAGS: [&str; 12] = [
    "A",
    "ASCII",
    "I",
    "IGNORECASE",
    "M",
    "MULTILINE",
    "S",
    "DOTALL",
    "U",
    "UNICODE",
    "X",
    "VERBOSE",
];

/// Attributes of a `JSONDecodeError`.
const JSON_ERROR: [&str; 5] = ["msg", "doc", "pos", "lineno", "colno"];

/// Parts of `os` and `os.path` that access files.
const FILES: [&str; 22] = [
    "abspath",
    "access",
    "chdir",
    "exists",
    "expanduser",
    "getcwd",
    "getmtime",
    "getsize",
    "isdir",
    "isfile",
    "islink",
    "listdir",
    "makedirs",
    "mkdir",
    "realpath",
    "remove",
    "rename",
    "rmdir",
    "scandir",
    "stat",
    "unlink",
    "walk",
];

/// A rewritten block.
#[derive(Debug, Default)]
pub(super) struct Rewritten {
    /// The text, with the same number of lines as the block.
    pub(super) text: String,
    /// The required helpers.
    pub(super) helpers: BTreeSet<&'static str>,
    /// Names that the block binds anywhere.
    pub(super) bound: HashSet<String>,
    /// Names that the block deletes, which are not results.
    pub(super) deleted: HashSet<String>,
    /// The first construct that cannot be rewritten, and its byte offset.
    pub(super) refused: Option<(Unsupported, usize)>,
}

/// Rewrites a block.
pub(super) fn rewrite(source: &str, suite: &[Stmt], tokens: &Tokens) -> Rewritten {
    let mut bindings = Bindings::default();
    bindings.visit_body(suite);
    let seeks_blanks = whitespace::first_use(suite).is_some();
    let mut writer = Writer {
        source,
        tokens,
        bound: &bindings.bound,
        aliases: &bindings.aliases,
        uses_re: bindings.modules.contains("re"),
        uses_flags: bindings.modules.contains("re") && bindings.flags,
        counts: source.contains("Counter"),
        reads_json: bindings.handles || seeks_blanks,
        seeks_blanks,
        errors: &bindings.errors,
        nans: nans::matter(suite),
        loops: 0,
        depth: 0,
        debug: false,
        eager: HashSet::new(),
        edits: Vec::new(),
        temporaries: 0,
        out: Rewritten::default(),
    };
    writer.visit_body(suite);
    let edits = std::mem::take(&mut writer.edits);
    let mut out = std::mem::take(&mut writer.out);
    drop(writer);
    out.text = apply(source, 0, source.len(), edits);
    out.bound = bindings.bound;
    out
}

/// An edit of the text: `start..end` becomes `text`.
#[derive(Debug, Clone)]
struct Edit {
    start: usize,
    end: usize,
    text: String,
}

/// Returns the text of `start..end` with the edits applied.
fn apply(source: &str, start: usize, end: usize, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.start);
    let mut text = String::with_capacity(end - start + 16 * edits.len());
    let mut at = start;
    for edit in edits {
        text.push_str(source.get(at..edit.start).unwrap_or_default());
        text.push_str(&edit.text);
        at = edit.end.max(at);
    }
    text.push_str(source.get(at..end).unwrap_or_default());
    text
}

/// Names that the block binds, and modules that it imports.
#[derive(Debug, Default)]
struct Bindings {
    bound: HashSet<String>,
    modules: HashSet<String>,
    /// Names of imported modules that have a replacement, and those modules.
    aliases: HashMap<String, String>,
    /// True if a flag of `re` is mentioned.
    flags: bool,
    /// True if an error is handled.
    handles: bool,
    /// Names of caught errors.
    errors: HashSet<String>,
}

impl<'a> Visitor<'a> for Bindings {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(it) => {
                self.bound.insert(it.name.to_string());
            }
            Stmt::ClassDef(it) => {
                self.bound.insert(it.name.to_string());
            }
            Stmt::Import(it) => {
                for alias in &it.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name);
                    let first = name.split('.').next().unwrap_or_default();
                    self.bound.insert(first.to_owned());
                    self.modules.insert(alias.name.to_string());
                    let (bound, module) = match (&alias.asname, alias.name.as_str()) {
                        (Some(name), module) => (name.as_str(), module),
                        (None, "os.path") => ("os", "os"),
                        (None, module) => (module, module),
                    };
                    self.aliases.insert(bound.to_owned(), module.to_owned());
                }
            }
            Stmt::ImportFrom(it) => {
                for alias in &it.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name);
                    self.bound.insert(name.to_string());
                    self.flags |= FLAGS.contains(&alias.name.as_str());
                }
                self.modules
                    .extend(it.module.as_ref().map(ToString::to_string));
            }
            _ => {}
        }
        visitor::walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Name(name) = expression
            && matches!(name.ctx, ExprContext::Store)
        {
            self.bound.insert(name.id.to_string());
        }
        if let Expr::Attribute(it) = expression {
            self.flags |= FLAGS.contains(&it.attr.as_str());
        }
        visitor::walk_expr(self, expression);
    }

    fn visit_parameter(&mut self, parameter: &'a Parameter) {
        self.bound.insert(parameter.name.to_string());
        visitor::walk_parameter(self, parameter);
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(it) = handler;
        self.handles = true;
        if let Some(name) = &it.name {
            self.bound.insert(name.to_string());
            self.errors.insert(name.to_string());
        }
        visitor::walk_except_handler(self, handler);
    }
}

struct Writer<'a> {
    source: &'a str,
    tokens: &'a Tokens,
    bound: &'a HashSet<String>,
    aliases: &'a HashMap<String, String>,
    uses_re: bool,
    /// True if flags of `re` may occur as values.
    uses_flags: bool,
    /// True if a `Counter` may occur.
    counts: bool,
    /// True if `json.loads` needs its helper: an error of it may be handled, or its text matters.
    reads_json: bool,
    /// True if the block looks for white space.
    seeks_blanks: bool,
    /// Names of caught errors.
    errors: &'a HashSet<String>,
    /// True if several NaNs in containers could be told apart.
    nans: bool,
    /// The number of loops around the statement.
    loops: u32,
    /// The number of compound statements and definitions around the statement.
    depth: u32,
    /// True within `{expression=}`, whose source text is shown.
    debug: bool,
    /// Ranges of lazy expressions that the surrounding expression consumes completely.
    eager: HashSet<(usize, usize)>,
    edits: Vec<Edit>,
    temporaries: u32,
    out: Rewritten,
}

fn span(node: &impl Ranged) -> (usize, usize) {
    (node.start().to_usize(), node.end().to_usize())
}

impl<'a> Writer<'a> {
    fn refuse(&mut self, at: usize, what: impl Into<String>, instead: Option<&'static str>) {
        if self
            .out
            .refused
            .as_ref()
            .is_none_or(|(_, earlier)| at < *earlier)
        {
            let what = Unsupported {
                what: what.into(),
                instead,
            };
            self.out.refused = Some((what, at));
        }
    }

    fn need(&mut self, helper: &'static str, at: usize) {
        if self.debug {
            self.refuse(
                at,
                "this expression in `{…=}` of an f-string",
                Some("write its name and its value"),
            );
        }
        self.out.helpers.insert(helper);
    }

    fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(at, at, text);
    }

    /// Replaces a range; the line feeds in it are kept.
    fn replace(&mut self, start: usize, end: usize, text: impl Into<String>) {
        let lines = self.text(start, end).matches('\n').count();
        let mut text = text.into();
        text.push_str(&"\n".repeat(lines));
        self.edits.push(Edit { start, end, text });
    }

    fn text(&self, start: usize, end: usize) -> &'a str {
        self.source.get(start..end).unwrap_or_default()
    }

    /// Returns the range of the first token of a kind between two offsets.
    fn token(&self, kind: TokenKind, from: usize, to: usize) -> Option<(usize, usize)> {
        self.tokens
            .iter()
            .map(|token| (token.kind(), span(token)))
            .find(|(found, (start, end))| *found == kind && *start >= from && *end <= to)
            .map(|(_, range)| range)
    }

    /// Visits `expression` and returns its text with the resulting edits applied.
    fn rendered(&mut self, expression: &'a Expr) -> String {
        let before = std::mem::take(&mut self.edits);
        self.visit_expr(expression);
        let edits = std::mem::replace(&mut self.edits, before);
        let (start, end) = span(expression);
        apply(self.source, start, end, edits)
    }

    /// True if the expression is `json.loads`, and calls of it need the helper. Every block has `json`.
    fn is_loads(&self, it: &ruff_python_ast::ExprAttribute) -> bool {
        let Expr::Name(name) = &*it.value else {
            return false;
        };
        let is_json = match self.aliases.get(name.id.as_str()) {
            Some(module) => module == "json",
            None => name.id.as_str() == "json" && self.is_builtin(&name.id),
        };
        is_json && self.reads_json && it.attr.as_str() == "loads"
    }

    fn need_loads(&mut self, at: usize) {
        self.need("loads", at);
        if self.seeks_blanks {
            self.out.helpers.insert("seeks_blanks");
        }
    }

    /// True if the expression is the name of a caught error, which may come from `json.loads`.
    fn is_json_error(&self, it: &Expr) -> bool {
        self.source.contains("loads")
            && matches!(it, Expr::Name(name) if self.errors.contains(name.id.as_str()))
    }

    fn is_builtin(&self, name: &str) -> bool {
        !self.bound.contains(name)
    }

    /// Marks a lazy expression as safe to evaluate eagerly.
    fn consume(&mut self, expression: &'a Expr) {
        let lazy = match expression {
            Expr::Generator(_) => true,
            Expr::Call(call) => {
                matches!(&*call.func, Expr::Name(name) if LAZY.contains(&name.id.as_str()))
            }
            _ => false,
        };
        if lazy {
            self.eager.insert(span(expression));
        }
    }

    /// Rewrites `left OPERATOR right` as a call of a helper.
    fn binary(
        &mut self,
        whole: (usize, usize),
        left: &'a Expr,
        right: &'a Expr,
        kind: TokenKind,
        helper: &'static str,
    ) {
        let Some((start, end)) = self.operator(kind, left, right) else {
            return;
        };
        self.need(helper, whole.0);
        self.insert(whole.0, format!("__{helper}__("));
        self.visit_expr(left);
        self.replace(start, end, ",");
        self.visit_expr(right);
        self.insert(whole.1, ")");
    }

    /// Rewrites a comparison that may compare items of containers.
    fn compare(&mut self, it: &'a ruff_python_ast::ExprCompare) {
        let (Some(operator), Some(right)) = (it.ops.first(), it.comparators.first()) else {
            return;
        };
        let (kind, helper) = match operator {
            CmpOp::Eq => (TokenKind::EqEqual, "nan_eq"),
            CmpOp::NotEq => (TokenKind::NotEqual, "nan_ne"),
            CmpOp::In => (TokenKind::In, "nan_in"),
            _ => (TokenKind::In, "nan_not_in"),
        };
        if matches!(operator, CmpOp::NotIn)
            && let Some((start, end)) = self.operator(TokenKind::Not, &it.left, right)
        {
            self.replace(start, end, "");
        }
        self.binary(span(it), &it.left, right, kind, helper);
    }

    fn operator(&self, kind: TokenKind, left: &Expr, right: &Expr) -> Option<(usize, usize)> {
        self.token(kind, left.end().to_usize(), right.start().to_usize())
    }

    /// Rewrites `[key]` after `value` as `, key)`.
    fn subscript(&mut self, value: &'a Expr, slice: &'a Expr, end: usize, closing: &str) {
        let Some((open, after)) = self.token(
            TokenKind::Lsqb,
            value.end().to_usize(),
            slice.start().to_usize().max(value.end().to_usize() + 1),
        ) else {
            return;
        };
        self.visit_expr(value);
        if let Expr::Slice(it) = slice {
            self.replace(open, after, ", slice(");
            let mut at = after;
            let colons: Vec<(usize, usize)> = {
                let mut found = Vec::new();
                let parts = [&it.lower, &it.upper, &it.step];
                for (n, part) in parts.iter().enumerate() {
                    if let Some(part) = part {
                        at = part.end().to_usize();
                    }
                    if n < 2
                        && let Some(colon) = self.token(TokenKind::Colon, at, end)
                    {
                        let next = parts[n + 1].as_ref().map(|it| it.start().to_usize());
                        if next.is_none_or(|next| colon.1 <= next) {
                            found.push(colon);
                            at = colon.1;
                        }
                    }
                }
                found
            };
            for (n, part) in [&it.lower, &it.upper, &it.step].into_iter().enumerate() {
                match part {
                    Some(part) => self.visit_expr(part),
                    None if n < 2 => {
                        let place = colons.get(n).map_or(end - 1, |colon| colon.0);
                        self.insert(place, "None");
                    }
                    None => {}
                }
                if let Some((start, end)) = colons.get(n) {
                    let more = n == 0 || it.step.is_some();
                    self.replace(*start, *end, if more { "," } else { "" });
                }
            }
            self.replace(end - 1, end, format!("){closing}"));
        } else {
            self.replace(open, after, ", (");
            self.visit_expr(slice);
            self.replace(end - 1, end, format!("){closing}"));
        }
    }

    fn generator(&mut self, expression: &'a Expr, it: &'a ExprGenerator) {
        let whole = span(it);
        let has_named = contains_named(expression);
        if self.eager.contains(&whole) {
            visitor::walk_expr(self, expression);
            return;
        }
        let Some(first) = it.generators.first() else {
            return;
        };
        let (start, end) = span(&first.iter);
        // The step of a generator runs all inner loops for one item of the first.
        let is_nested = it.generators.len() > 1;
        if has_named || is_nested || self.text(start, end).contains('\n') || first.is_async {
            self.refuse(
                whole.0,
                "this generator expression",
                Some("a list (`[… for …]`) does the same where all of it is used"),
            );
            return;
        }
        self.need("gen", whole.0);
        let (begin, finish) = if it.parenthesized {
            (whole.0 + 1, whole.1 - 1)
        } else {
            whole
        };
        self.insert(begin, "__gen__(lambda __it__: [");
        self.visit_expr(&it.elt);
        self.visit_expr(&first.target);
        let source = self.rendered(&first.iter);
        self.replace(start, end, "(__it__,)");
        for condition in &first.ifs {
            self.visit_expr(condition);
        }
        self.insert(finish, format!("], ({source}))"));
    }

    fn call(&mut self, expression: &'a Expr, call: &'a ruff_python_ast::ExprCall) {
        let whole = span(call);
        match &*call.func {
            Expr::Name(name)
                if name.id.as_str() == "repr"
                    && self.is_builtin("repr")
                    && call
                        .arguments
                        .args
                        .first()
                        .is_some_and(|it| self.is_json_error(it)) =>
            {
                let (start, end) = span(name);
                self.need("error_repr", start);
                self.replace(start, end, "__error_repr__");
                self.visit_arguments(&call.arguments);
                return;
            }
            Expr::Name(name) if self.is_builtin(&name.id) => {
                let to_file = |it: &ruff_python_ast::Keyword| {
                    it.arg.as_ref().is_some_and(|arg| arg == "file")
                };
                if name.id.as_str() == "print" && call.arguments.keywords.iter().any(to_file) {
                    let (start, end) = span(name);
                    self.need("print", start);
                    self.replace(start, end, "__print__");
                    self.visit_arguments(&call.arguments);
                    return;
                }
                if self.nans {
                    match (name.id.as_str(), call.arguments.args.first()) {
                        ("float", Some(_)) if nans::is_source(call) => {
                            self.rename(&call.func, "float");
                        }
                        ("set", Some(_)) => self.rename(&call.func, "set"),
                        ("frozenset", Some(_)) => self.rename(&call.func, "frozenset"),
                        ("map", Some(it)) if nans::is_float_type(it) => self.rename(it, "float"),
                        _ => {}
                    }
                }
                if CONSUMERS.contains(&name.id.as_str()) {
                    for argument in &call.arguments.args {
                        self.consume(argument);
                    }
                }
                if LAZY.contains(&name.id.as_str()) && !self.eager.contains(&whole) {
                    // The input of a lazy helper may stay lazy.
                } else if LAZY.contains(&name.id.as_str()) {
                    let skip = usize::from(matches!(name.id.as_str(), "map" | "filter"));
                    for argument in call.arguments.args.iter().skip(skip) {
                        self.consume(argument);
                    }
                    for argument in &call.arguments.args {
                        self.visit_expr(argument);
                    }
                    for keyword in &call.arguments.keywords {
                        self.visit_expr(&keyword.value);
                    }
                    return;
                }
            }
            Expr::Attribute(attribute) if self.is_loads(attribute) => {}
            Expr::Attribute(attribute) => {
                let name = attribute.attr.as_str();
                self.part_of_module(attribute);
                if CONSUMING_METHODS.contains(&name) {
                    for argument in &call.arguments.args {
                        self.consume(argument);
                    }
                }
                let of_a_module = matches!(&*attribute.value, Expr::Name(owner)
                    if self.aliases.get(owner.id.as_str()).is_some_and(|it| shims::module(it).is_some()));
                if let Some(helper) = self.method_helper(name, call).filter(|_| !of_a_module) {
                    self.method_call(whole, attribute, call, helper);
                    return;
                }
                let on_a_type = matches!(&*attribute.value, Expr::Name(owner)
                    if TYPES.contains(&owner.id.as_str()) && self.is_builtin(&owner.id));
                if on_a_type && !OF_THE_TYPE.contains(&name) {
                    self.bound_method(attribute);
                } else {
                    self.visit_expr(&attribute.value);
                }
                self.visit_arguments(&call.arguments);
                return;
            }
            _ => {}
        }
        visitor::walk_expr(self, expression);
    }

    /// Rejects a part of a module that its replacement lacks.
    fn part_of_module(&mut self, it: &'a ruff_python_ast::ExprAttribute) {
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

    /// Replaces a name by that of its helper.
    fn rename(&mut self, name: &Expr, helper: &'static str) {
        let (start, end) = span(name);
        self.need(helper, start);
        self.replace(start, end, format!("__{helper}__"));
    }

    /// Rewrites `owner[key] = …`, so that a dict keeps the first of several equal keys.
    fn store(&mut self, it: &'a ruff_python_ast::ExprSubscript) {
        let (start, end) = span(&*it.slice);
        let owner = self.text(span(&*it.value).0, span(&*it.value).1);
        self.need("dict_key", start);
        self.visit_expr(&it.value);
        self.insert(start, format!("__dict_key__({owner}, ("));
        self.visit_expr(&it.slice);
        self.insert(end, "))");
    }

    /// Checks a set for several NaNs if there may be some.
    fn set(&mut self, expression: &'a Expr) {
        let (start, end) = span(expression);
        if self.nans {
            self.need("set", start);
            self.insert(start, "__set__(");
        }
        visitor::walk_expr(self, expression);
        if self.nans {
            self.insert(end, ")");
        }
    }

    /// Refuses a dict display with equal keys of several types, such as `1` and `True`.
    fn display(&mut self, it: &'a ruff_python_ast::ExprDict) {
        let mut known: Vec<(f64, &Expr)> = Vec::new();
        for key in it.items.iter().filter_map(|item| item.key.as_ref()) {
            if matches!(key, Expr::BooleanLiteral(_)) {
                self.out.helpers.insert("dict_key_bool");
            }
            let Some(number) = number(key) else { continue };
            if known.iter().any(|(other, earlier)| {
                other.total_cmp(&number).is_eq() && kind(earlier) != kind(key)
            }) {
                self.refuse(
                    key.start().to_usize(),
                    "equal keys of several types in a dict",
                    Some("keep one of them"),
                );
            }
            known.push((number, key));
        }
    }

    /// Returns the helper for a method of this name with these arguments.
    fn method_helper(&self, name: &str, call: &ruff_python_ast::ExprCall) -> Option<&'static str> {
        let helper = shims::method(name)?;
        let arguments = &call.arguments;
        let several = arguments.args.len() > 1 || arguments.args.iter().any(Expr::is_starred_expr);
        let looks_for_text = matches!(arguments.args.first(),
            Some(Expr::StringLiteral(it)) if !it.value.is_empty());
        let needed = match name {
            "decode" => self.seeks_blanks,
            "sort" | "remove" => self.nans,
            "index" | "count" if self.nans => true,
            "find" | "rfind" | "index" | "rindex" | "count" | "startswith" | "endswith" => {
                several && !looks_for_text
            }
            "update" | "union" | "intersection" | "difference" => several,
            "dumps" => arguments
                .keywords
                .iter()
                .any(|it| it.arg.as_ref().is_none_or(|arg| arg == "default")),
            "isoformat" => !arguments.args.is_empty() || !arguments.keywords.is_empty(),
            _ => true,
        };
        needed.then_some(helper)
    }

    /// Rewrites `value.name(arguments)` as `__m_name__(value, arguments)`.
    fn method_call(
        &mut self,
        whole: (usize, usize),
        attribute: &'a ruff_python_ast::ExprAttribute,
        call: &'a ruff_python_ast::ExprCall,
        helper: &'static str,
    ) {
        let Some((dot, _)) = self.token(
            TokenKind::Dot,
            attribute.value.end().to_usize(),
            attribute.attr.start().to_usize(),
        ) else {
            return;
        };
        self.need(helper, whole.0);
        self.insert(whole.0, format!("__{helper}__("));
        self.visit_expr(&attribute.value);
        let empty = call.arguments.args.is_empty() && call.arguments.keywords.is_empty();
        let open = call.arguments.start().to_usize() + 1;
        self.replace(dot, open, if empty { "" } else { ", " });
        self.visit_arguments(&call.arguments);
    }

    /// Rewrites `value.name` for a method that is not called here.
    fn bound_method(&mut self, attribute: &'a ruff_python_ast::ExprAttribute) {
        let (start, end) = span(attribute);
        let name = attribute.attr.as_str();
        let Some((dot, _)) = self.token(
            TokenKind::Dot,
            attribute.value.end().to_usize(),
            attribute.attr.start().to_usize(),
        ) else {
            return;
        };
        self.need("bound", start);
        let method = match shims::method(name) {
            Some(helper) => {
                self.out.helpers.insert(helper);
                format!("__{helper}__(__o__, *__a__, **__k__)")
            }
            // Some methods of the interpreter do not accept an empty `**`.
            None => format!("__o__.{name}(*__a__, **__k__) if __k__ else __o__.{name}(*__a__)"),
        };
        self.insert(start, "__bound__(");
        self.visit_expr(&attribute.value);
        self.replace(
            dot,
            end,
            format!(", lambda __o__: __o__.{name}, lambda __o__, *__a__, **__k__: {method})"),
        );
    }

    fn augmented(&mut self, it: &'a StmtAugAssign) {
        let (token, helper) = match it.op {
            Operator::Mod => (TokenKind::PercentEqual, "mod"),
            Operator::Div if !is_number(&it.value, true) => (TokenKind::SlashEqual, "div"),
            Operator::Pow if !is_number(&it.value, false) => (TokenKind::DoubleStarEqual, "pow"),
            Operator::BitOr if self.uses_flags => (TokenKind::VbarEqual, "flagior"),
            Operator::BitOr if !is_number(&it.value, false) => (TokenKind::VbarEqual, "ior"),
            Operator::FloorDiv => (TokenKind::DoubleSlashEqual, "floordiv"),
            // A `Counter` changes in place.
            Operator::Add
                if self.counts
                    && is_plain(&it.target)
                    && !matches!(&*it.value, Expr::NumberLiteral(_) | Expr::StringLiteral(_)) =>
            {
                (TokenKind::PlusEqual, "iadd")
            }
            // Lists and sets change in place.
            Operator::Mult if !is_float(&it.value) => (TokenKind::StarEqual, "imul"),
            Operator::Sub if !is_number(&it.value, true) => (TokenKind::MinusEqual, "isub"),
            Operator::BitAnd if !is_number(&it.value, false) => (TokenKind::AmperEqual, "iand"),
            Operator::BitXor if !is_number(&it.value, false) => {
                (TokenKind::CircumflexEqual, "ixor")
            }
            _ => {
                self.visit_expr(&it.target);
                self.visit_expr(&it.value);
                return;
            }
        };
        let (start, end) = span(it);
        let (target_start, target_end) = span(&*it.target);
        if !is_plain(&it.target)
            || matches!(&*it.target, Expr::Subscript(s) if matches!(*s.slice, Expr::Slice(_)))
        {
            self.refuse(
                start,
                "this assignment with an operator",
                Some("write `x = x % y` in place of `x %= y`"),
            );
            return;
        }
        let Some((from, to)) = self.token(token, target_end, it.value.start().to_usize()) else {
            return;
        };
        self.need(helper, start);
        let target = self.text(target_start, target_end);
        self.replace(from, to, format!("= __{helper}__({target}, ("));
        self.visit_expr(&it.value);
        self.insert(end, "))");
    }

    fn delete(&mut self, it: &'a ruff_python_ast::StmtDelete, later: bool) {
        let (start, _) = span(it);
        let mut previous: Option<usize> = None;
        let first = it
            .targets
            .first()
            .map_or(start + 3, |it| it.start().to_usize());
        self.replace(start, first, "");
        for target in &it.targets {
            let (from, to) = span(target);
            if let Some(previous) = previous
                && let Some((comma, after)) = self.token(TokenKind::Comma, previous, from)
            {
                self.replace(comma, after, ";");
            }
            previous = Some(to);
            match target {
                Expr::Subscript(item) => {
                    self.need("delitem", from);
                    self.insert(from, "__delitem__(");
                    self.subscript(&item.value, &item.slice, to, ")");
                }
                Expr::Name(name) if !later && self.loops == 0 && self.depth == 0 => {
                    self.out.deleted.insert(name.id.to_string());
                    self.replace(from, to, "None");
                }
                _ => self.refuse(
                    start,
                    "this `del` statement",
                    Some("`x = None` forgets a value"),
                ),
            }
        }
    }

    /// Rewrites `x[a:b] = v`, and unpacking into items and attributes.
    fn assign(&mut self, it: &'a ruff_python_ast::StmtAssign) {
        let (start, end) = span(it);
        if let [Expr::Subscript(target)] = it.targets.as_slice()
            && matches!(*target.slice, Expr::Slice(_))
        {
            self.need("setslice", start);
            let (from, to) = span(target);
            let Some((equals, after)) =
                self.token(TokenKind::Equal, to, it.value.start().to_usize())
            else {
                return;
            };
            self.insert(from, "__setslice__(");
            self.subscript(&target.value, &target.slice, to, "");
            self.replace(equals, after, ", (");
            self.visit_expr(&it.value);
            self.insert(end, "))");
            return;
        }
        let mut after = String::new();
        for target in &it.targets {
            if matches!(target, Expr::Tuple(_) | Expr::List(_)) {
                self.unpack(target, &mut after);
            } else {
                self.visit_expr(target);
            }
        }
        self.visit_expr(&it.value);
        if !after.is_empty() {
            if it.targets.len() > 1 {
                self.refuse(start, "unpacking into an attribute or an item", None);
            }
            self.insert(end, after);
        }
    }

    fn unpack(&mut self, target: &'a Expr, after: &mut String) {
        match target {
            Expr::Tuple(it) => it.elts.iter().for_each(|it| self.unpack(it, after)),
            Expr::List(it) => it.elts.iter().for_each(|it| self.unpack(it, after)),
            Expr::Starred(it) => self.unpack(&it.value, after),
            Expr::Attribute(_) | Expr::Subscript(_) => {
                let (from, to) = span(target);
                let slice =
                    matches!(target, Expr::Subscript(s) if matches!(*s.slice, Expr::Slice(_)));
                if slice || self.text(from, to).contains('\n') {
                    self.refuse(
                        from,
                        "unpacking into an attribute or an item",
                        Some("unpack into names and assign those"),
                    );
                    return;
                }
                let text = self.rendered(target);
                let name = format!("__part{}__", self.temporaries);
                self.temporaries += 1;
                self.replace(from, to, name.clone());
                after.push_str(&format!("; {text} = {name}"));
            }
            _ => self.visit_expr(target),
        }
    }

    fn handler(&mut self, it: &'a ruff_python_ast::ExceptHandlerExceptHandler) {
        let harmless = |expression: &Expr| match expression {
            Expr::Name(name) => HARMLESS.contains(&name.id.as_str()),
            Expr::Attribute(it) => matches!(
                it.attr.as_str(),
                "JSONDecodeError" | "error" | "PatternError"
            ),
            _ => false,
        };
        let guarded = match it.type_.as_deref() {
            None => true,
            Some(Expr::Tuple(tuple)) => !tuple.elts.iter().all(harmless),
            Some(kind) => !harmless(kind) && !is_import_error(kind),
        };
        // The interpreter keeps the key of a `KeyError` as text.
        let keyed = it.name.is_some()
            && match it.type_.as_deref() {
                Some(Expr::Tuple(tuple)) => tuple.elts.iter().any(catches_key_errors),
                kind => kind.is_some_and(catches_key_errors),
            };
        if (guarded || keyed)
            && let Some(first) = it.body.first()
        {
            self.out.helpers.insert("caught");
            let name = match (&it.name, &it.type_) {
                (Some(name), _) if keyed => {
                    self.out.helpers.insert("keyed");
                    format!("__keyed__({name})")
                }
                (Some(name), _) => name.to_string(),
                (None, Some(kind)) => {
                    let mut end = kind.end().to_usize();
                    if let Some((_, closed)) =
                        self.token(TokenKind::Rpar, end, first.start().to_usize())
                        && self.token(TokenKind::Colon, end, closed).is_none()
                    {
                        end = closed;
                    }
                    self.insert(end, " as __error__");
                    "__error__".to_owned()
                }
                (None, None) => {
                    let at = it.start().to_usize() + "except".len();
                    self.insert(at, " BaseException as __error__");
                    "__error__".to_owned()
                }
            };
            self.guard(first, &name);
        }
        if let Some(kind) = &it.type_ {
            self.visit_expr(kind);
        }
        self.visit_body(&it.body);
    }

    /// Inserts a check of the caught error before `first`, the first statement of its handler.
    fn guard(&mut self, first: &'a Stmt, name: &str) {
        let around = |writer: &mut Self, expression: &'a Expr, begin: String, close: &str| {
            // Parentheses around the expression belong to it.
            let (start, end) = span(expression);
            writer.insert(start, begin);
            writer.insert(end, close);
        };
        match first {
            Stmt::If(it) => around(self, &it.test, format!("__caught__({name}) or ("), ")"),
            Stmt::While(it) => around(self, &it.test, format!("__caught__({name}) or ("), ")"),
            Stmt::For(it) if !it.is_async => {
                around(self, &it.iter, format!("__caught__({name}, ("), "))");
            }
            Stmt::With(it) if !it.is_async => {
                if let Some(item) = it.items.first() {
                    around(
                        self,
                        &item.context_expr,
                        format!("__caught__({name}, ("),
                        "))",
                    );
                }
            }
            Stmt::Try(it) => {
                if let Some(inner) = it.body.first() {
                    self.guard(inner, name);
                }
            }
            Stmt::FunctionDef(_)
            | Stmt::ClassDef(_)
            | Stmt::Match(_)
            | Stmt::For(_)
            | Stmt::With(_) => {
                self.refuse(
                    first.start().to_usize(),
                    "a definition at the beginning of an `except` block",
                    Some("move it out of the block"),
                );
            }
            // After a semicolon, the parser reads `match = …` as a `match` statement.
            Stmt::Assign(it)
                if ["match", "type", "case"].iter().any(|word| {
                    self.text(it.start().to_usize(), it.end().to_usize())
                        .starts_with(word)
                }) =>
            {
                around(self, &it.value, format!("[__caught__({name}), ("), ")][1]");
            }
            other => {
                let at = other.start().to_usize();
                self.insert(at, format!("__caught__({name}); "));
            }
        }
    }

    fn import(&mut self, statement: &'a Stmt) {
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

    /// True if the name occurs after `offset`.
    fn used_later(&self, name: &str, offset: usize) -> bool {
        self.tokens.iter().any(|token| {
            let (start, end) = span(token);
            token.kind() == TokenKind::Name && start > offset && self.text(start, end) == name
        })
    }
}

impl<'a> Visitor<'a> for Writer<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Delete(it) => {
                let end = it.end().to_usize();
                let later = it.targets.iter().any(
                    |target| matches!(target, Expr::Name(name) if self.used_later(&name.id, end)),
                );
                self.delete(it, later);
            }
            Stmt::Assign(it) => self.assign(it),
            Stmt::AugAssign(it) => self.augmented(it),
            Stmt::Import(_) | Stmt::ImportFrom(_) => self.import(statement),
            Stmt::Raise(it) => {
                visitor::walk_stmt(self, statement);
                if let Some(Expr::Name(name)) = it.exc.as_deref()
                    && ERRORS.contains(&name.id.as_str())
                    && self.is_builtin(&name.id)
                {
                    self.insert(name.end().to_usize(), "()");
                }
            }
            Stmt::For(_) | Stmt::While(_) => {
                self.loops += 1;
                self.depth += 1;
                visitor::walk_stmt(self, statement);
                self.depth -= 1;
                self.loops -= 1;
            }
            Stmt::FunctionDef(_)
            | Stmt::ClassDef(_)
            | Stmt::If(_)
            | Stmt::With(_)
            | Stmt::Try(_) => {
                self.depth += 1;
                visitor::walk_stmt(self, statement);
                self.depth -= 1;
            }
            _ => visitor::walk_stmt(self, statement),
        }
    }

    /// Annotations are not evaluated.
    fn visit_annotation(&mut self, _: &'a Expr) {}

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(it) = handler;
        self.handler(it);
    }

    fn visit_interpolated_string_element(&mut self, element: &'a InterpolatedStringElement) {
        let before = self.debug;
        if let InterpolatedStringElement::Interpolation(it) = element {
            if matches!(it.conversion, ConversionFlag::Repr) && self.is_json_error(&it.expression) {
                self.refuse(
                    it.start().to_usize(),
                    "`{…!r}` with a caught error",
                    Some("`{repr(error)}` does the same"),
                );
            }
            self.debug = before || it.debug_text.is_some();
            let literal = matches!(
                *it.expression,
                Expr::NumberLiteral(_) | Expr::StringLiteral(_)
            );
            if matches!(it.conversion, ConversionFlag::None)
                && it.format_spec.is_some()
                && !literal
                && !self.debug
            {
                let (start, end) = span(&*it.expression);
                self.need("formatted", start);
                self.insert(start, "__formatted__((");
                visitor::walk_interpolated_string_element(self, element);
                self.insert(end, "))");
                self.debug = before;
                return;
            }
        }
        visitor::walk_interpolated_string_element(self, element);
        self.debug = before;
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Attribute(it) = expression {
            self.part_of_module(it);
        }
        match expression {
            Expr::BinOp(it) => {
                let whole = span(it);
                let (left, right) = (&*it.left, &*it.right);
                match it.op {
                    Operator::Mod if !is_number(left, true) => {
                        self.binary(whole, left, right, TokenKind::Percent, "mod");
                    }
                    Operator::Div if !is_float(left) && !is_float(right) => {
                        self.binary(whole, left, right, TokenKind::Slash, "div");
                    }
                    Operator::Pow if !is_number(right, false) => {
                        self.binary(whole, left, right, TokenKind::DoubleStar, "pow");
                    }
                    Operator::BitOr if !is_set(left) && !is_set(right) => {
                        let helper = if self.uses_flags { "flagor" } else { "or" };
                        self.binary(whole, left, right, TokenKind::Vbar, helper);
                    }
                    Operator::BitAnd if self.uses_flags => {
                        self.binary(whole, left, right, TokenKind::Amper, "flagand");
                    }
                    Operator::FloorDiv if !is_number(left, false) || !is_number(right, false) => {
                        self.binary(whole, left, right, TokenKind::DoubleSlash, "floordiv");
                    }
                    _ => visitor::walk_expr(self, expression),
                }
            }
            Expr::Compare(it) if self.nans && nans::compares_items(it) => self.compare(it),
            Expr::Subscript(it)
                if matches!(it.ctx, ExprContext::Store)
                    && is_plain(&it.value)
                    && !matches!(
                        *it.slice,
                        Expr::Slice(_) | Expr::StringLiteral(_) | Expr::FString(_)
                    ) =>
            {
                self.store(it);
            }
            Expr::Dict(it) => {
                self.display(it);
                visitor::walk_expr(self, expression);
            }
            Expr::Attribute(it) if self.nans && it.attr.as_str() == "nan" => {
                self.out.helpers.insert("nan_of_math");
                visitor::walk_expr(self, expression);
            }
            Expr::Generator(it) => self.generator(expression, it),
            Expr::Call(call) => self.call(expression, call),
            Expr::Attribute(it) if self.is_loads(it) => {
                let (start, end) = span(it);
                self.need_loads(start);
                self.replace(start, end, "__loads__");
            }
            Expr::Attribute(it)
                if JSON_ERROR.contains(&it.attr.as_str())
                    && matches!(it.ctx, ExprContext::Load)
                    && self.is_json_error(&it.value) =>
            {
                let (start, end) = span(it);
                let name = self.text(start, it.value.end().to_usize());
                self.need("json_part", start);
                self.replace(start, end, format!("__json_part__({name}, '{}')", it.attr));
            }
            Expr::Attribute(it)
                if matches!(it.ctx, ExprContext::Load) && shims::is_method(it.attr.as_str()) =>
            {
                self.bound_method(it);
            }
            Expr::Subscript(it)
                if self.uses_re
                    && matches!(it.ctx, ExprContext::Load)
                    && !matches!(*it.slice, Expr::Slice(_))
                    && !matches!(
                        *it.value,
                        Expr::List(_) | Expr::Dict(_) | Expr::StringLiteral(_)
                    ) =>
            {
                let (start, end) = span(it);
                self.need("item", start);
                self.insert(start, "__item__(");
                self.subscript(&it.value, &it.slice, end, ")");
            }
            Expr::Starred(it) => {
                self.consume(&it.value);
                self.visit_expr(&it.value);
            }
            Expr::Name(name)
                if matches!(name.ctx, ExprContext::Load) && self.is_builtin(&name.id) =>
            {
                let (start, end) = span(name);
                if name.id.as_str() == "open" {
                    self.refuse(start, format!("{NO_ACCESS} files (`open`)"), None);
                } else if diagnose::lacks_builtin(&name.id) && !BUILTINS.contains(&name.id.as_str())
                {
                    self.refuse(start, format!("the built-in `{}`", name.id), None);
                }
                let known = BUILTINS
                    .iter()
                    .chain(&LAZY)
                    .find(|it| **it == name.id.as_str())
                    .copied();
                let known = known.or(match name.id.as_str() {
                    "chr" if self.seeks_blanks => Some("chr"),
                    "isinstance" if self.uses_flags => Some("isinstance"),
                    "sorted" if self.nans => Some("sorted"),
                    _ => None,
                });
                if let Some(helper) = known {
                    self.need(helper, start);
                    self.replace(start, end, format!("__{helper}__"));
                }
            }
            Expr::ListComp(it) => {
                it.generators.iter().for_each(|it| self.consume(&it.iter));
                visitor::walk_expr(self, expression);
            }
            Expr::SetComp(it) => {
                it.generators.iter().for_each(|it| self.consume(&it.iter));
                self.set(expression);
            }
            Expr::Set(_) => self.set(expression),
            Expr::DictComp(it) => {
                it.generators.iter().for_each(|it| self.consume(&it.iter));
                visitor::walk_expr(self, expression);
            }
            _ => visitor::walk_expr(self, expression),
        }
    }
}

fn contains_named(generator: &Expr) -> bool {
    #[derive(Default)]
    struct Search {
        found: bool,
    }
    impl<'a> Visitor<'a> for Search {
        fn visit_expr(&mut self, expression: &'a Expr) {
            self.found |= matches!(expression, Expr::Named(_));
            visitor::walk_expr(self, expression);
        }
    }
    let mut search = Search::default();
    visitor::walk_expr(&mut search, generator);
    search.found
}

fn is_import_error(kind: &Expr) -> bool {
    matches!(kind, Expr::Name(name) if matches!(name.id.as_str(), "ImportError" | "ModuleNotFoundError"))
}

/// True if the expression is a number literal; floats count only if `floats`.
fn catches_key_errors(kind: &Expr) -> bool {
    matches!(kind, Expr::Name(name) if ["KeyError", "LookupError", "Exception", "BaseException"].contains(&name.id.as_str()))
}

fn is_number(expression: &Expr, floats: bool) -> bool {
    match expression {
        Expr::NumberLiteral(it) => floats || matches!(it.value, Number::Int(_)),
        _ => false,
    }
}

/// Returns the value of a literal key that is a number.
fn number(key: &Expr) -> Option<f64> {
    match key {
        Expr::BooleanLiteral(it) => Some(f64::from(u8::from(it.value))),
        Expr::NumberLiteral(it) => match &it.value {
            Number::Int(it) => it.as_i32().map(f64::from),
            Number::Float(it) => Some(*it + 0.0),
            Number::Complex { .. } => None,
        },
        _ => None,
    }
}

/// Returns the type of a literal key that is a number.
fn kind(key: &Expr) -> &'static str {
    match key {
        Expr::BooleanLiteral(_) => "bool",
        other if is_float(other) => "float",
        _ => "int",
    }
}

fn is_float(expression: &Expr) -> bool {
    matches!(expression, Expr::NumberLiteral(it) if matches!(it.value, Number::Float(_)))
}

fn is_set(expression: &Expr) -> bool {
    matches!(
        expression,
        Expr::Set(_) | Expr::SetComp(_) | Expr::NumberLiteral(_)
    )
}

/// True if evaluating the expression twice is equivalent to once, and nothing in it is rewritten.
fn is_plain(expression: &Expr) -> bool {
    match expression {
        Expr::Name(_) | Expr::StringLiteral(_) | Expr::NumberLiteral(_) => true,
        Expr::Attribute(it) => is_plain(&it.value),
        Expr::Subscript(it) => is_plain(&it.value) && is_plain(&it.slice),
        _ => false,
    }
}
