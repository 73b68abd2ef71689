//! The allow-list of the embedded Python: it runs what the differential tests compare with CPython, and
//! refuses everything else before anything runs.
//!
//! A construct whose result depends on more than the text shows gets a [guard](super::guards), or is not
//! on the list. `try` is not, so that no block handles an error that CPython does not raise.

use std::collections::BTreeSet;

use ruff_python_ast::visitor::{Visitor, walk_expr};
use ruff_python_ast::{
    Alias, CmpOp, Comprehension, ConversionFlag, Expr, ExprAttribute, ExprCall, ExprCompare,
    ExprContext, FStringPart, InterpolatedElement, InterpolatedStringElement, Keyword, Number,
    Operator, Parameters, Stmt, StmtAugAssign, StmtFunctionDef, StmtImport, StmtRaise, UnaryOp,
};
use ruff_text_size::Ranged;

use super::branches;
use super::callees::{self, ANY, Callee, Guarded, Kinds, named};
use super::changes;
use super::edits::Edit;
use super::guards::Guard;
use super::unsupported::Unsupported;

/// Modules that a block may import.
const MODULES: [&str; 2] = ["json", "math"];

/// The maximum nesting depth of statements and expressions. Bounds the stack that a block needs.
const MAX_NESTED: u32 = 1_000;

const AS_LIST: &str = "`list(…)` around it does the same";
const AS_SORTED: &str = "`sorted(set(…))` gives its items";

/// The guards of a block that is on the list.
#[derive(Debug, Default)]
pub(super) struct Guards {
    /// Edits that put the guarded expressions into calls.
    pub(super) edits: Vec<Edit>,
    pub(super) used: BTreeSet<Guard>,
}

/// Checks a block.
///
/// # Errors
/// The first construct that is not on the list, and its byte offset.
pub(super) fn check(source: &str, suite: &[Stmt]) -> Result<Guards, (Unsupported, usize)> {
    let mut check = Check {
        source,
        guards: Guards::default(),
        nested: 0,
    };
    check.body(suite)?;
    Ok(check.guards)
}

type Checked = Result<(), (Unsupported, usize)>;

fn refuse(at: &impl Ranged, what: impl Into<String>, instead: Option<&'static str>) -> Checked {
    let at = at.start().to_usize();
    Err((Unsupported::new(what, instead), at))
}

struct Check<'a> {
    source: &'a str,
    guards: Guards,
    nested: u32,
}

impl<'a> Check<'a> {
    fn nest(&mut self, at: &impl Ranged) -> Checked {
        self.nested += 1;
        if self.nested > MAX_NESTED {
            return refuse(at, "code nested this deep", None);
        }
        Ok(())
    }

    fn body(&mut self, suite: &'a [Stmt]) -> Checked {
        for statement in suite {
            self.nest(statement)?;
            self.statement(statement)?;
            self.nested -= 1;
        }
        Ok(())
    }

    fn statement(&mut self, statement: &'a Stmt) -> Checked {
        match statement {
            Stmt::Expr(it) => self.value(&it.value),
            Stmt::Return(it) => it.value.iter().try_for_each(|value| self.value(value)),
            Stmt::Assign(it) => {
                self.value(&it.value)?;
                it.targets.iter().try_for_each(|target| self.target(target))
            }
            Stmt::AugAssign(it) => self.augmented(it),
            Stmt::If(it) => {
                self.value(&it.test)?;
                self.body(&it.body)?;
                it.elif_else_clauses.iter().try_for_each(|clause| {
                    clause.test.iter().try_for_each(|test| self.value(test))?;
                    self.body(&clause.body)
                })
            }
            Stmt::For(it) if !it.is_async => {
                self.names(&it.target)?;
                self.expression(&it.iter, Kinds::VIEW)?;
                self.body(&it.body)?;
                self.body(&it.orelse)
            }
            Stmt::While(it) => {
                self.value(&it.test)?;
                self.body(&it.body)?;
                self.body(&it.orelse)
            }
            Stmt::FunctionDef(it) => self.function(it),
            Stmt::Assert(it) => {
                self.value(&it.test)?;
                it.msg.iter().try_for_each(|message| self.message(message))
            }
            Stmt::Raise(it) => self.raise(it),
            Stmt::Import(it) => self.import(it),
            Stmt::Nonlocal(it) => it.names.iter().try_for_each(|name| self.binds(it, name)),
            Stmt::Pass(_) | Stmt::Break(_) | Stmt::Continue(_) => Ok(()),
            other => refuse_statement(other),
        }
    }

    fn augmented(&mut self, it: &'a StmtAugAssign) -> Checked {
        let instead = match it.op {
            Operator::Add | Operator::Sub => None,
            _ => Some("write `x = x * y` in place of `x *= y`"),
        };
        if instead.is_some() {
            return refuse(it, format!("`{}=`", it.op.as_str()), instead);
        }
        match &*it.target {
            Expr::Name(_) | Expr::Subscript(_) => self.target(&it.target)?,
            other => return refuse(other, "this assignment", None),
        }
        self.value(&it.value)
    }

    fn function(&mut self, it: &'a StmtFunctionDef) -> Checked {
        if it.is_async {
            return refuse(it, "`async`", None);
        }
        if !it.decorator_list.is_empty() {
            return refuse(it, "a decorator", None);
        }
        if it.returns.is_some() || it.type_params.is_some() {
            return refuse(it, "an annotation", None);
        }
        self.binds(it, it.name.as_str())?;
        self.parameters(&it.parameters)?;
        self.body(&it.body)
    }

    fn parameters(&mut self, it: &'a Parameters) -> Checked {
        if !it.posonlyargs.is_empty() {
            return refuse(it, "positional-only parameters", None);
        }
        for parameter in it {
            let (name, annotation) = (parameter.name(), parameter.annotation());
            if annotation.is_some() {
                return refuse(name, "an annotation", None);
            }
            self.binds(name, name.as_str())?;
            parameter
                .default()
                .map_or(Ok(()), |default| self.value(default))?;
        }
        Ok(())
    }

    fn raise(&mut self, it: &'a StmtRaise) -> Checked {
        let known = |expression: &Expr| matches!(expression, Expr::Name(it) if callees::EXCEPTIONS.contains(&it.id.as_str()));
        match it.exc.as_deref() {
            Some(kind) if known(kind) && it.cause.is_none() => Ok(()),
            Some(Expr::Call(call))
                if known(&call.func)
                    && it.cause.is_none()
                    && call.arguments.args.len() <= 1
                    && call.arguments.keywords.is_empty() =>
            {
                let mut arguments = call.arguments.args.iter();
                arguments.try_for_each(|argument| self.message(argument))
            }
            _ => refuse(it, "this `raise`", Some("`raise ValueError(text)` fails")),
        }
    }

    fn message(&mut self, it: &'a Expr) -> Checked {
        match it {
            Expr::StringLiteral(_) | Expr::FString(_) => self.value(it),
            _ => self.guarded(Guard::Message, it, Kinds::NONE),
        }
    }

    fn import(&mut self, it: &'a StmtImport) -> Checked {
        let known = |alias: &&Alias| !MODULES.contains(&alias.name.as_str());
        if let Some(alias) = it.names.iter().find(known) {
            return refuse(it, format!("the module `{}`", alias.name), None);
        }
        if it.names.iter().any(|alias| alias.asname.is_some()) {
            refuse(it, "`import … as`", Some("import it under its name"))
        } else {
            Ok(())
        }
    }

    /// Checks that a name may be bound: no other construct relies on its meaning.
    fn binds(&self, at: &impl Ranged, name: &str) -> Checked {
        let reserved = callees::is_builtin(name) || MODULES.contains(&name);
        if reserved || name.starts_with("__") {
            let what = format!("`{name}` as the name of something else");
            return refuse(at, what, Some("choose another name"));
        }
        Ok(())
    }

    fn target(&mut self, target: &'a Expr) -> Checked {
        let Expr::Subscript(it) = target else {
            return self.names(target);
        };
        self.value(&it.value)?;
        match &*it.slice {
            Expr::Slice(_) => refuse(
                it,
                "assigning to a slice",
                Some("build a new list from the parts"),
            ),
            key => self.key(key),
        }
    }

    /// Checks a target that consists of names.
    fn names(&self, target: &'a Expr) -> Checked {
        match target {
            Expr::Name(it) => self.binds(it, it.id.as_str()),
            Expr::Tuple(it) => it.elts.iter().try_for_each(|element| self.names(element)),
            Expr::List(it) => it.elts.iter().try_for_each(|element| self.names(element)),
            Expr::Starred(it) => self.names(&it.value),
            other => refuse(
                other,
                "assigning to this",
                Some("assign to names and items one by one"),
            ),
        }
    }

    /// Checks the key of a dict. Equal keys of several types are not on the list.
    fn key(&mut self, key: &'a Expr) -> Checked {
        match key {
            Expr::StringLiteral(_) | Expr::FString(_) | Expr::NoneLiteral(_) => self.value(key),
            Expr::NumberLiteral(it) if matches!(it.value, Number::Int(_)) => Ok(()),
            Expr::BooleanLiteral(_) | Expr::NumberLiteral(_) => refuse(
                key,
                "a bool or a float as a key",
                Some("text or whole numbers do the same"),
            ),
            _ => self.guarded(Guard::Key, key, Kinds::NONE),
        }
    }

    /// Checks an expression, and puts it into the call of a guard.
    fn guarded(&mut self, guard: Guard, it: &'a Expr, takes: Kinds) -> Checked {
        self.guards.used.insert(guard);
        // The second parentheses keep a tuple without parentheses together.
        self.insert(it.start().to_usize(), format!("{}((", guard.function()));
        self.expression(it, takes)?;
        self.insert(it.end().to_usize(), "))".to_owned());
        Ok(())
    }

    fn insert(&mut self, at: usize, text: String) {
        self.guards.edits.push(Edit {
            start: at,
            end: at,
            text,
        });
    }

    fn value(&mut self, it: &'a Expr) -> Checked {
        self.expression(it, Kinds::NONE)
    }

    fn values(&mut self, these: &'a [Expr]) -> Checked {
        these.iter().try_for_each(|item| match item {
            Expr::Starred(it) => self.expression(&it.value, Kinds::VIEW),
            it => self.value(it),
        })
    }

    /// Checks an expression whose reader takes the given kinds of values.
    fn expression(&mut self, it: &'a Expr, takes: Kinds) -> Checked {
        self.nest(it)?;
        self.one(it, takes)?;
        self.nested -= 1;
        Ok(())
    }

    fn one(&mut self, expression: &'a Expr, takes: Kinds) -> Checked {
        match expression {
            Expr::BooleanLiteral(_) | Expr::NoneLiteral(_) => Ok(()),
            Expr::NumberLiteral(it) => match it.value {
                Number::Complex { .. } => refuse(it, "a complex number", None),
                _ => Ok(()),
            },
            Expr::StringLiteral(it) => self.text(it, it.value.to_str()),
            Expr::FString(it) => it.value.iter().try_for_each(|part| match part {
                FStringPart::Literal(it) => self.text(it, it.as_str()),
                FStringPart::FString(it) => self.elements(it.elements.iter()),
            }),
            Expr::Name(it) => self.name(it, it.id.as_str()),
            Expr::List(it) => self.values(&it.elts),
            Expr::Tuple(it) => self.values(&it.elts),
            Expr::Dict(it) => it.items.iter().try_for_each(|item| {
                item.key.iter().try_for_each(|key| self.key(key))?;
                self.value(&item.value)
            }),
            Expr::BoolOp(it) => it.values.iter().try_for_each(|value| self.value(value)),
            Expr::UnaryOp(it) if matches!(it.op, UnaryOp::Not | UnaryOp::USub) => {
                self.value(&it.operand)
            }
            Expr::BinOp(it) => self.operation(it.op, &it.left, &it.right, expression, takes),
            Expr::Compare(it) => self.comparison(it),
            Expr::If(it) => {
                self.value(&it.test)?;
                self.value(&it.body)?;
                self.value(&it.orelse)
            }
            Expr::Lambda(it) => {
                it.parameters
                    .iter()
                    .try_for_each(|parameters| self.parameters(parameters))?;
                self.value(&it.body)
            }
            Expr::Subscript(it) => {
                self.value(&it.value)?;
                match &*it.slice {
                    Expr::Slice(it) => [&it.lower, &it.upper, &it.step]
                        .into_iter()
                        .flatten()
                        .try_for_each(|value| self.value(value)),
                    index => self.value(index),
                }
            }
            Expr::Attribute(it) => self.attribute(it),
            Expr::Call(it) => self.call(it, takes),
            Expr::ListComp(it) => self.comprehension(&[&it.elt], &it.generators),
            Expr::DictComp(it) => {
                let key = it.key.as_deref();
                self.scope(key.into_iter().chain([&*it.value]), &it.generators)?;
                key.map_or(Ok(()), |key| self.key(key))?;
                self.value(&it.value)
            }
            Expr::Generator(it) if takes.has(Kinds::GENERATOR) => {
                self.comprehension(&[&it.elt], &it.generators)
            }
            Expr::Generator(it) => refuse(
                it,
                "a generator expression here",
                Some("a list (`[… for …]`) does the same"),
            ),
            Expr::Set(it) if takes.has(Kinds::SET) => self.values(&it.elts),
            Expr::SetComp(it) if takes.has(Kinds::SET) => {
                self.comprehension(&[&it.elt], &it.generators)
            }
            Expr::Set(_) | Expr::SetComp(_) => refuse(expression, "a set here", Some(AS_SORTED)),
            other => refuse_expression(other),
        }
    }

    /// Checks a literal. The parser replaces half a surrogate pair, which CPython keeps.
    fn text(&self, at: &impl Ranged, text: &str) -> Checked {
        let range = at.start().to_usize()..at.end().to_usize();
        let is_written = |text: &str| text.contains('\u{fffd}');
        if is_written(text) && !self.source.get(range).is_some_and(is_written) {
            return refuse(
                at,
                "half a surrogate pair in text",
                Some("write the character itself, or all of its number, as in `\\U0001F600`"),
            );
        }
        Ok(())
    }

    fn elements(
        &mut self,
        elements: impl Iterator<Item = &'a InterpolatedStringElement>,
    ) -> Checked {
        for element in elements {
            match element {
                InterpolatedStringElement::Literal(it) => self.text(it, &it.value)?,
                InterpolatedStringElement::Interpolation(it) => self.interpolation(it)?,
            }
        }
        Ok(())
    }

    fn interpolation(&mut self, it: &'a InterpolatedElement) -> Checked {
        if it.debug_text.is_some() {
            return refuse(it, "`{…=}`", Some("write the name and the value"));
        }
        let guard = match it.conversion {
            ConversionFlag::Ascii => return refuse(it, "`{…!a}`", None),
            ConversionFlag::None if it.format_spec.is_some() => Guard::Formatted,
            _ => Guard::Shown,
        };
        match &*it.expression {
            literal @ (Expr::StringLiteral(_) | Expr::FString(_)) => self.value(literal)?,
            Expr::NumberLiteral(it) if matches!(it.value, Number::Int(_)) => {}
            expression => self.guarded(guard, expression, Kinds::NONE)?,
        }
        let Some(spec) = &it.format_spec else {
            return Ok(());
        };
        for element in &spec.elements {
            match element {
                InterpolatedStringElement::Literal(it) if is_format(&it.value) => {}
                other => return refuse(other, "this format", None),
            }
        }
        Ok(())
    }

    fn name(&self, at: &impl Ranged, name: &str) -> Checked {
        if name.starts_with("__") {
            return refuse(at, format!("`{name}`"), None);
        }
        if callees::PASSED.contains(&name) {
            return Ok(());
        }
        if callees::is_builtin(name) {
            let what = format!("the built-in `{name}` here");
            return refuse(at, what, Some("a `lambda` that calls it does the same"));
        }
        if MODULES.contains(&name) {
            refuse(at, format!("the module `{name}` as a value"), None)
        } else {
            Ok(())
        }
    }

    fn attribute(&mut self, it: &'a ExprAttribute) -> Checked {
        let name = it.attr.as_str();
        if let Some(module) = module_of(it) {
            return if module == "math" && callees::CONSTANTS.contains(&name) {
                Ok(())
            } else {
                refuse(it, format!("`{module}.{name}` here"), None)
            };
        }
        if !branches::ATTRIBUTES.contains(&name) || it.ctx != ExprContext::Load {
            return refuse(it, format!("the attribute `{name}`"), None);
        }
        self.value(&it.value)
    }

    fn operation(
        &mut self,
        operator: Operator,
        left: &'a Expr,
        right: &'a Expr,
        at: &'a Expr,
        takes: Kinds,
    ) -> Checked {
        if takes.has(Kinds::SET) && is_set(left) && is_set(right) {
            self.expression(left, Kinds::SET)?;
            return self.expression(right, Kinds::SET);
        }
        let guard = match operator {
            Operator::Add | Operator::Sub | Operator::Mult => None,
            Operator::Mod if !matches!(left, Expr::StringLiteral(_) | Expr::FString(_)) => None,
            Operator::Div => Some(Guard::Divided),
            Operator::FloorDiv => Some(Guard::Whole),
            Operator::Mod => {
                let instead = Some("an f-string does the same");
                return refuse(at, "`%` formatting of text", instead);
            }
            Operator::Pow => {
                return refuse(at, "`**`", Some("`x * x` does the same as `x ** 2`"));
            }
            other => return refuse(at, format!("the operator `{}`", other.as_str()), None),
        };
        for operand in [left, right] {
            match guard {
                Some(guard) => self.guarded(guard, operand, Kinds::NONE)?,
                None => self.value(operand)?,
            }
        }
        Ok(())
    }

    fn comparison(&mut self, it: &'a ExprCompare) -> Checked {
        self.value(&it.left)?;
        for (operator, right) in it.ops.iter().zip(&it.comparators) {
            match operator {
                CmpOp::In | CmpOp::NotIn => {
                    self.expression(right, Kinds::VIEW.and(Kinds::SET))?;
                }
                CmpOp::Is | CmpOp::IsNot
                    if !matches!(right, Expr::NoneLiteral(_) | Expr::BooleanLiteral(_)) =>
                {
                    return refuse(it, "`is` with a value", Some("`==` compares values"));
                }
                _ => self.value(right)?,
            }
        }
        Ok(())
    }

    fn comprehension(&mut self, parts: &[&'a Expr], generators: &'a [Comprehension]) -> Checked {
        self.scope(parts.iter().copied(), generators)?;
        parts.iter().try_for_each(|part| self.value(part))
    }

    /// Checks the loops of a comprehension.
    fn scope(
        &mut self,
        parts: impl Iterator<Item = &'a Expr>,
        generators: &'a [Comprehension],
    ) -> Checked {
        // A comprehension reads a copy of these values, so nothing may change them meanwhile.
        let conditions = generators.iter().flat_map(|generator| &generator.ifs);
        let inner = generators.iter().skip(1).map(|generator| &generator.iter);
        let pure = parts.chain(conditions).chain(inner).all(is_pure);
        let takes = if pure {
            Kinds::VIEW.and(Kinds::PAIRED)
        } else {
            Kinds::VIEW
        };
        for generator in generators {
            if generator.is_async {
                return refuse(generator, "`async`", None);
            }
            self.names(&generator.target)?;
            self.expression(&generator.iter, takes)?;
            generator
                .ifs
                .iter()
                .try_for_each(|condition| self.value(condition))?;
        }
        Ok(())
    }

    fn call(&mut self, call: &'a ExprCall, takes: Kinds) -> Checked {
        match &*call.func {
            Expr::Name(it) if it.id.as_str() == "isinstance" => self.isinstance(call),
            Expr::Name(it) => match named(callees::FUNCTIONS, &it.id) {
                Some(callee) => self.listed(call, callee, takes),
                None => self.own(call, it.id.as_str()),
            },
            Expr::Attribute(it) => {
                let name = it.attr.as_str();
                let (table, shown) = match module_of(it) {
                    Some("json") => (callees::JSON, format!("`json.{name}`")),
                    Some(_) => (callees::MATH, format!("`math.{name}`")),
                    None => (callees::METHODS, format!("the method `{name}`")),
                };
                match named(table, name) {
                    Some(callee) => self.listed(call, callee, takes),
                    None => refuse(it, shown, None),
                }
            }
            other => {
                self.value(other)?;
                self.arguments(call)
            }
        }
    }

    /// Checks the call of a function that is not built in.
    fn own(&mut self, call: &'a ExprCall, name: &str) -> Checked {
        if callees::is_builtin(name) {
            let instead = match name {
                "sum" => Some("a loop adds"),
                "pow" => Some("`*` multiplies"),
                _ => None,
            };
            return refuse(call, format!("the built-in `{name}`"), instead);
        }
        self.name(call, name)?;
        self.arguments(call)
    }

    fn arguments(&mut self, call: &'a ExprCall) -> Checked {
        self.values(&call.arguments.args)?;
        let mut keywords = call.arguments.keywords.iter();
        keywords.try_for_each(|keyword| self.value(&keyword.value))
    }

    /// Checks the call of a function or method that is on the list.
    fn listed(&mut self, call: &'a ExprCall, callee: &'static Callee, takes: Kinds) -> Checked {
        let (name, arguments) = (callee.name, &call.arguments);
        let count = arguments.args.len();
        let spread = arguments.args.iter().any(Expr::is_starred_expr) && callee.maximum != ANY;
        let known = |keyword: &Keyword| {
            let name = keyword.arg.as_ref().map(|name| name.as_str());
            // CPython takes integers only, the interpreter everything.
            let is_known = name != Some("reverse") || keyword.value.is_boolean_literal_expr();
            is_known
                && name.is_some_and(|name| {
                    callee.keywords.contains(&name) || callee.keywords.contains(&"*")
                })
        };
        if spread || !(callee.minimum..=callee.maximum).contains(&count) {
            return refuse(call, format!("these arguments of `{name}`"), None);
        }
        if !arguments.keywords.iter().all(known) {
            return refuse(call, format!("these keyword arguments of `{name}`"), None);
        }
        if !takes.has(callee.gives) {
            let instead = if callee.gives == Kinds::SET {
                AS_SORTED
            } else {
                AS_LIST
            };
            return refuse(call, format!("`{name}` here"), Some(instead));
        }
        if let Expr::Attribute(it) = &*call.func
            && module_of(it).is_none()
        {
            match callee.guarded {
                Guarded::Receiver(guard) => self.guarded(guard, &it.value, Kinds::NONE)?,
                _ => self.value(&it.value)?,
            }
        }
        let mut takes = callee.takes;
        if !arguments.keywords.is_empty() {
            // The order of equal items would be that of the set.
            takes = takes.without(Kinds::SET);
        }
        if ["max", "min"].contains(&name) {
            if count > 1 {
                takes = Kinds::NONE;
            } else if !arguments.keywords.is_empty() {
                // The calls of `key` alternate with those that make the items.
                takes = Kinds::VIEW;
            }
        }
        for (index, argument) in arguments.args.iter().enumerate() {
            match (argument, callee.guarded) {
                (Expr::Starred(it), Guarded::Each(guard)) => {
                    // Items of the argument are checked with it.
                    self.insert(
                        it.value.start().to_usize(),
                        format!("{}(list(", guard.function()),
                    );
                    self.guards.used.insert(guard);
                    self.expression(&it.value, Kinds::VIEW)?;
                    self.insert(it.value.end().to_usize(), "))".to_owned());
                }
                (Expr::Starred(it), _) => self.expression(&it.value, Kinds::VIEW)?,
                (_, Guarded::Each(guard)) => self.guarded(guard, argument, takes)?,
                (_, Guarded::First(guard)) if index == 0 => {
                    self.guarded(guard, argument, takes)?;
                }
                _ => self.expression(argument, takes)?,
            }
        }
        let mut keywords = arguments.keywords.iter();
        keywords.try_for_each(|keyword| self.value(&keyword.value))
    }

    fn isinstance(&mut self, call: &'a ExprCall) -> Checked {
        let is_type = |expression: &Expr| matches!(expression, Expr::Name(it) if callees::TYPES.contains(&it.id.as_str()));
        let known = match &*call.arguments.args {
            [_, Expr::Tuple(types)] => types.elts.iter().all(is_type),
            [_, kind] => is_type(kind),
            _ => false,
        };
        if !known || !call.arguments.keywords.is_empty() {
            return refuse(call, "this use of `isinstance`", None);
        }
        self.value(&call.arguments.args[0])
    }
}

/// Returns the module whose part the expression is.
fn module_of(it: &ExprAttribute) -> Option<&'static str> {
    let Expr::Name(owner) = &*it.value else {
        return None;
    };
    MODULES
        .into_iter()
        .find(|module| owner.id.as_str() == *module)
}

/// True if the text shows that the expression is a set.
fn is_set(expression: &Expr) -> bool {
    match expression {
        Expr::Set(_) | Expr::SetComp(_) => true,
        Expr::Call(it) => matches!(&*it.func, Expr::Name(name) if name.id.as_str() == "set"),
        Expr::BinOp(it) => {
            let of_sets = [
                Operator::BitOr,
                Operator::BitAnd,
                Operator::BitXor,
                Operator::Sub,
            ];
            of_sets.contains(&it.op) && is_set(&it.left) && is_set(&it.right)
        }
        _ => false,
    }
}

/// True for a format that all versions of Python understand alike. `c` makes a character of a number, `n`
/// depends on the locale.
fn is_format(spec: &str) -> bool {
    const DIGITS: &str = "0123456789";
    let chars: Vec<char> = spec.chars().collect();
    let mut at = match chars.as_slice() {
        [_, '<' | '>' | '^' | '=', ..] => 2,
        ['<' | '>' | '^' | '=', ..] => 1,
        _ => 0,
    };
    let mut skip = |these: &str, maximum: usize| {
        let from = at;
        while at - from < maximum
            && chars
                .get(at)
                .is_some_and(|character| these.contains(*character))
        {
            at += 1;
        }
        at > from
    };
    skip("+- ", 1);
    skip("#", 1);
    skip(DIGITS, 4);
    skip(",_", 1);
    if skip(".", 1) && !skip(DIGITS, 3) {
        return false;
    }
    skip("bdeEfFgGosxX%", 1);
    at == chars.len()
}

/// True if evaluating the expression changes no value. Whatever may call a function of the block counts
/// as a change.
fn is_pure(expression: &Expr) -> bool {
    struct Search(bool);
    impl<'a> Visitor<'a> for Search {
        fn visit_expr(&mut self, expression: &'a Expr) {
            if let Expr::Call(call) = expression {
                self.0 |= match &*call.func {
                    Expr::Name(name) => {
                        let mut keywords = call.arguments.keywords.iter();
                        let calls = ["filter", "map"].contains(&name.id.as_str())
                            || keywords.any(|keyword| {
                                keyword.arg.as_ref().is_some_and(|name| name == "key")
                            });
                        calls || !callees::is_builtin(&name.id)
                    }
                    Expr::Attribute(it) => changes::METHODS.contains(&it.attr.as_str()),
                    _ => true,
                };
            }
            walk_expr(self, expression);
        }
    }
    let mut search = Search(false);
    search.visit_expr(expression);
    !search.0
}

fn refuse_statement(statement: &Stmt) -> Checked {
    let (what, instead) = match statement {
        Stmt::Try(_) => ("`try`", None),
        Stmt::With(_) => ("`with`", None),
        Stmt::ClassDef(_) => ("a class", Some("a dict has fields, too")),
        Stmt::Match(_) => ("`match`", Some("`if` and `elif` do the same")),
        Stmt::Delete(_) => ("`del`", Some("`d.pop(key)` removes an item")),
        Stmt::Global(_) => ("`global`", Some("a dict keeps values")),
        Stmt::AnnAssign(_) => ("an annotation", Some("assign without it")),
        Stmt::ImportFrom(it) => {
            let module = it.module.as_ref().map_or("", |module| module.as_str());
            if MODULES.contains(&module) {
                return refuse(it, "`from … import`", Some("import the module"));
            }
            return refuse(it, format!("the module `{module}`"), None);
        }
        _ => ("this statement", None),
    };
    refuse(statement, what, instead)
}

fn refuse_expression(expression: &Expr) -> Checked {
    let (what, instead) = match expression {
        Expr::Yield(_) | Expr::YieldFrom(_) => (
            "a generator (`yield`)",
            Some("collect into a list and return it"),
        ),
        Expr::Await(_) => ("`await`", None),
        Expr::Named(_) => ("`:=`", Some("assign in a statement of its own")),
        Expr::BytesLiteral(_) => ("bytes", None),
        Expr::TString(_) => ("a t-string", Some("use an f-string")),
        Expr::UnaryOp(it) => {
            return refuse(it, format!("the operator `{}`", it.op.as_str()), None);
        }
        _ => ("this expression", None),
    };
    refuse(expression, what, instead)
}
