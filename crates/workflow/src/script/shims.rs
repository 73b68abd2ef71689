//! Python code in front of a block, limited to the parts that the block uses.
//!
//! `shims/core.py` contains helpers for built-in names, operators and methods, one per paragraph that
//! begins with `#: name dependencies`. Every other file is a module that replaces one of the
//! interpreter's own, or one that it lacks.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::LazyLock;

use super::python_builtins;

/// A module implemented in Python.
#[derive(Debug)]
pub(super) struct Module {
    /// The name of the helper for [`text`].
    pub(super) helper: &'static str,
    /// The expression for the module.
    pub(super) object: &'static str,
    source: &'static str,
}

impl Module {
    /// True if the module has a part of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.source.contains(&format!("'{name}': ")) || name == "__name__"
    }
}

macro_rules! modules {
    ($($name:literal $file:literal $object:literal)*) => {
        const MODULES: &[(&str, Module)] = &[
            $(($name, Module { helper: $name, object: $object, source: include_str!($file) })),*
        ];
    };
}

modules! {
    "re" "shims/re.py" "__re__"
    "time" "shims/time.py" "__time__"
    "random" "shims/random.py" "__random__"
    "hashlib" "shims/hashlib.py" "__hashlib__"
    "uuid" "shims/uuid.py" "__uuid__"
    "copy" "shims/copy.py" "__copy__"
    "string" "shims/string.py" "__string__"
    "textwrap" "shims/textwrap.py" "__textwrap__"
    "statistics" "shims/statistics.py" "__statistics__"
    "operator" "shims/operator.py" "__operator__"
    "bisect" "shims/bisect.py" "__bisect__"
    "heapq" "shims/heapq.py" "__heapq__"
    "html" "shims/html.py" "__html__"
    "urllib.parse" "shims/urllib_parse.py" "__urllib_parse__"
    "contextlib" "shims/contextlib.py" "__contextlib__"
    "itertools" "shims/itertools.py" "__itertools__"
    "functools" "shims/functools.py" "__functools__"
    "os.path" "shims/os_path.py" "__os_path__"
    "os" "shims/os.py" "__os__"
    "math" "shims/math.py" "__math__"
    "sys" "shims/sys.py" "__sys__"
}

/// Dependencies of modules in addition to `module`.
const NEEDS: &[(&str, &[&str])] = &[
    ("item", &["re"]),
    ("time", &[]),
    ("uuid", &["random", "hashlib"]),
    ("itertools", &["gen"]),
    ("os", &["os.path"]),
    ("statistics", &["div"]),
    ("math", &["div"]),
];

/// A paragraph of `core.py`.
struct HelperSource {
    name: &'static str,
    needs: Vec<&'static str>,
    text: &'static str,
}

static HELPER_SOURCES: LazyLock<Vec<HelperSource>> = LazyLock::new(|| {
    include_str!("shims/core.py")
        .split("#: ")
        .skip(1)
        .filter_map(|piece| {
            let (head, text) = piece.split_once('\n')?;
            let mut words = head.split(' ');
            Some(HelperSource {
                name: words.next()?,
                needs: words.collect(),
                text,
            })
        })
        .collect()
});

/// Returns the replacement of a module.
pub(super) fn module(name: &str) -> Option<&'static Module> {
    MODULES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, module)| module)
}

/// Returns the helper that replaces a method of this name.
pub(super) fn method(name: &str) -> Option<&'static str> {
    let mut names = HELPER_SOURCES.iter().map(|piece| piece.name);
    names.find(|helper| helper.strip_prefix("m_") == Some(name))
}

/// True if a built-in type has a method of this name.
pub(super) fn is_method(name: &str) -> bool {
    if ["real", "imag", "numerator", "denominator"].contains(&name) {
        return false;
    }
    python_builtins::METHODS
        .iter()
        .any(|(_, names)| names.split_ascii_whitespace().any(|known| known == name))
}

/// Returns the text of these helpers and of their dependencies.
pub(super) fn text(helpers: &BTreeSet<&'static str>) -> String {
    let mut wanted = Vec::new();
    for helper in helpers {
        collect(helper, &mut wanted);
    }
    let mut text = String::new();
    for name in wanted {
        if let Some(piece) = HELPER_SOURCES.iter().find(|piece| piece.name == name) {
            text.push_str(piece.text);
            if name == "names" {
                for (kind, methods) in python_builtins::METHODS {
                    let methods: Vec<&str> = methods.split_ascii_whitespace().collect();
                    let _ = writeln!(text, "__method_names__['{kind}'] = {methods:?}");
                }
                text.push_str("__method_names__['none'] = []\n");
            }
        } else if name == "module" {
            text.push_str(include_str!("shims/module.py"));
        } else if let Some(module) = module(name) {
            text.push_str(module.source);
        }
    }
    text
}

/// Adds a helper after all its dependencies.
fn collect(name: &'static str, wanted: &mut Vec<&'static str>) {
    if wanted.contains(&name) {
        return;
    }
    if let Some(piece) = HELPER_SOURCES.iter().find(|piece| piece.name == name) {
        for need in &piece.needs {
            collect(need, wanted);
        }
    } else if name != "module" {
        collect("module", wanted);
    }
    for (_, needs) in NEEDS.iter().filter(|(known, _)| *known == name) {
        needs.iter().for_each(|need| collect(need, wanted));
    }
    if !wanted.contains(&name) {
        wanted.push(name);
    }
}

/// Wraps the text in the body of a function, so that names of the block do not affect it.
pub(super) fn in_function(text: &str, builtins: &[&str]) -> String {
    let mut names: Vec<&str> = text
        .lines()
        .filter_map(|line| {
            let rest = line
                .strip_prefix("def ")
                .or_else(|| line.strip_prefix("import re as "))
                .unwrap_or(line);
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(rest.len());
            let name = &rest[..end];
            (name.starts_with("__") && !line.starts_with(' ') && !rest[end..].starts_with('['))
                .then_some(name)
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    let mut whole = format!("def __shims__({}):\n", builtins.join(", "));
    for line in text.lines() {
        if !line.trim().is_empty() {
            whole.push(' ');
        }
        whole.push_str(line);
        whole.push('\n');
    }
    let names = names.join(", ");
    let _ = writeln!(
        whole,
        " return ({names},)\n({names},) = __shims__({})",
        builtins.join(", ")
    );
    whole
}
