//! `parallel_results` in a block: the results of the branches that were joined last.
//!
//! In the state, a result is a mapping (`branch`, `index`, `success`, `state`, …) whose `state` contains
//! the values that the branch has set. A block that mentions `parallel_results` gets an extended view of
//! it: the fields as attributes, the values that the branch could read in addition to those that it set,
//! and the fields of its state as items of the result. A view that leaves the block is converted back to
//! the original result. So does every block whose state has results. A branch that ran a subgraph could read nothing but its own state.

use std::fmt::Write as _;
use std::ops::Range;

use cachalot_core::text::word_list;
use ruff_python_ast::visitor::{Visitor, walk_expr};
use ruff_python_ast::{Expr, ExprContext, Stmt};
use ruff_text_size::{Ranged, TextRange};
use serde_json::{Map, Value};

use super::edits::{Edit, apply};

/// The name of the results, in the state and in a block.
pub(super) const RESULTS: &str = "parallel_results";

/// Attributes of a result.
pub(super) const ATTRIBUTES: [&str; 15] = word_list(
    "branch index success state result error error_type traceback timeout timing_ms retry_count \
     circuit_state attempt_errors exit_code to_dict",
);

/// Text in front of a block that mentions the results, after the common prelude.
///
/// A view of a result is a dict, known by its identity. The interpreter supports neither subclasses of dict
/// nor computed attributes, so attributes become calls of `__field_NAME__` in the text of the block.
const HEAD: &str = "\
__given__ = {}
__kept__ = ('branch', 'index', 'success', 'state', 'result', 'error', 'error_type', 'subgraph')
__always__ = {'error': None, 'error_type': None, 'traceback': None, 'timeout': False, 'retry_count': 0, 'circuit_state': None, 'attempt_errors': [], 'exit_code': None}
def __is_result__(it):
    return type(it) is dict and 'branch' in it and 'success' in it and type(it.get('state')) is dict
def __view__(it, base):
    if not __is_result__(it):
        return it
    seen = {**it['state']}
    __views__(seen, {})
    if it['success'] and 'subgraph' not in it:
        for key in base:
            if key not in seen:
                seen[key] = base[key]
    view = {**it, 'state': seen}
    for key in __always__:
        if key not in view:
            view[key] = [] if key == 'attempt_errors' else __always__[key]
    for key in seen:
        if key not in view:
            view[key] = seen[key]
    __given__[id(view)] = (view, it['state'], base)
    return view
def __has_results__(it):
    return type(it) is list and len(it) > 0 and __is_result__(it[0])
def __views__(state, base):
    for key in state:
        if __has_results__(state[key]):
            state[key] = [__view__(it, base) for it in state[key]]
def __is_view__(it):
    given = __given__.get(id(it))
    return given is not None and given[0] is it
def __unview__(it, depth):
    if type(it) is list or type(it) is tuple:
        return [__unview__(item, depth - 1) for item in it] if depth > 0 else it
    if type(it) is not dict or depth <= 0:
        return it
    if not __is_view__(it):
        return {key: __unview__(it[key], depth - 1) for key in it}
    seen = it.get('state')
    if type(seen) is dict:
        own, base = __given__[id(it)][1], __given__[id(it)][2]
        seen = {key: seen[key] for key in seen if key in own or key not in base or seen[key] is not base[key]}
    plain = {}
    for key in it:
        if key == 'state':
            plain[key] = __unview__(seen, depth - 1)
        elif key in __kept__ and not (key in __always__ and it[key] is None):
            plain[key] = __unview__(it[key], depth - 1)
        elif key not in __kept__ and key not in __always__ and key not in it['state']:
            plain[key] = __unview__(it[key], depth - 1)
    return plain
def __to_dict__(it):
    return {key: it[key] for key in it if key in __kept__ or key in __always__}
__views__(state, {key: state[key] for key in state if not __has_results__(state[key])})
if 'parallel_results' in state:
    parallel_results = state['parallel_results']
";

/// True if the block may read results: it contains their name, their key in the state, or an attribute of
/// a result. Results may be stored under other names too (`output` of a fan-out).
pub(super) fn mentioned(suite: &[Stmt]) -> bool {
    #[derive(Default)]
    struct Search(bool);
    impl<'a> Visitor<'a> for Search {
        fn visit_expr(&mut self, expression: &'a Expr) {
            self.0 |= match expression {
                Expr::Name(it) => it.id.as_str() == RESULTS,
                Expr::StringLiteral(it) => it.value == *RESULTS,
                Expr::Attribute(it) => {
                    it.ctx == ExprContext::Load && ATTRIBUTES.contains(&it.attr.as_str())
                }
                _ => false,
            };
            walk_expr(self, expression);
        }
    }
    let mut search = Search::default();
    search.visit_body(suite);
    search.0
}

/// True if a field of the state holds results.
pub(super) fn has_results(state: &Map<String, Value>) -> bool {
    let is_result = |result: &Value| {
        result.get("branch").is_some()
            && result.get("success").is_some()
            && result["state"].is_object()
    };
    state
        .values()
        .filter_map(|field| field.as_array()?.first())
        .any(is_result)
}

/// Returns the text in front of the block, after its guards.
pub(super) fn head() -> String {
    let mut head = HEAD.to_owned();
    for name in ATTRIBUTES {
        let of_result = match name {
            "to_dict" => "(lambda: __to_dict__(it))".to_owned(),
            // A time in the result would make the state of every run different.
            "timing_ms" => "it.timing_ms".to_owned(),
            _ => format!("it['{name}']"),
        };
        // A failed branch has no result.
        let has = if name == "result" {
            " and 'result' in it"
        } else {
            ""
        };
        let _ = writeln!(
            head,
            "def __field_{name}__(it):\n    return {of_result} if __is_view__(it){has} else it.{name}"
        );
    }
    head
}

/// Replaces attributes of results in the block by calls; lines keep their numbers.
pub(super) fn with_attributes_as_calls(source: &str, suite: &[Stmt]) -> String {
    struct Search<'a> {
        source: &'a str,
        edits: Vec<Edit>,
        /// The range of the method in the call that is being visited.
        method: Option<TextRange>,
    }
    impl<'a> Visitor<'a> for Search<'a> {
        fn visit_expr(&mut self, expression: &'a Expr) {
            // `xs.index(x)` is not an attribute of a result: of its fields, only `to_dict` can be called.
            if let Expr::Call(it) = expression {
                self.method = Some(it.func.range());
            }
            if let Expr::Attribute(it) = expression
                && it.ctx == ExprContext::Load
                && ATTRIBUTES.contains(&it.attr.as_str())
                && (self.method != Some(it.range()) || it.attr.as_str() == "to_dict")
            {
                let (value, name) = (it.value.range(), it.attr.range());
                let mut edit = |range: Range<usize>, text: String| {
                    let Range { start, end } = range;
                    self.edits.push(Edit { start, end, text });
                };
                let start = it.range().start().to_usize();
                edit(start..start, format!("__field_{}__(", it.attr));
                // The dot before the name becomes the end of the call. Blanks between them stay.
                let between = &self.source[value.end().to_usize()..name.start().to_usize()];
                if let Some(dot) = between.rfind('.') {
                    let dot = value.end().to_usize() + dot;
                    edit(dot..dot + 1, " ".to_owned());
                }
                edit(
                    name.start().to_usize()..name.end().to_usize(),
                    ")".to_owned(),
                );
            }
            walk_expr(self, expression);
        }
    }
    let mut search = Search {
        source,
        edits: Vec::new(),
        method: None,
    };
    search.visit_body(suite);
    // Outer expressions are visited first and begin no later than inner ones, and the edits of one place
    // keep this order.
    apply(source, 0, source.len(), search.edits)
}
