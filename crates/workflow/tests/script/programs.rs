//! Random programs over the allow-list: the embedded Python gives what CPython gives, or refuses a value.

use serde_json::{Value, json};

use crate::differential::{refused, same};
use crate::harness::{python, python3, tests, wait, with_state};
use cachalot_workflow::script::check;

tests!(random_programs_agree_with_cpython);

/// The number of programs, unless `PROPTEST_CASES` sets it.
const PROGRAMS: u64 = 400;

fn state() -> Value {
    json!({
        "n": 7, "m": -3, "big": 9_007_199_254_740_993_u64, "x": 12.5, "y": -0.1, "s": "Hello, World",
        "t": "  é漢🙂 a-b \n", "xs": [3, 1, 2, 3], "ws": ["pear", "fig", "apple", ""], "d": {"b": 2, "a": 1},
        "rows": [{"k": "a", "v": 1.5}, {"k": "b", "v": null}, {"k": "a", "v": 4}], "yes": true, "no": null,
    })
}

/// A type of generated expressions.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Int,
    Float,
    Text,
    Bool,
    Ints,
    Texts,
    Dict,
}

const KINDS: [Kind; 7] = [
    Kind::Int,
    Kind::Float,
    Kind::Text,
    Kind::Bool,
    Kind::Ints,
    Kind::Texts,
    Kind::Dict,
];

/// Writes a program.
struct Writer {
    random: u64,
    text: String,
    indent: usize,
    /// The variables that are bound on every path, with their types.
    names: Vec<(String, Kind)>,
    made: usize,
    /// The number of loops around the statement.
    loops: usize,
}

impl Writer {
    fn below(&mut self, maximum: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % maximum as u64) as usize
    }

    fn pick<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len())]
    }

    fn line(&mut self, line: &str) {
        self.text
            .push_str(&format!("{}{line}\n", "  ".repeat(self.indent)));
    }

    fn fresh(&mut self) -> String {
        self.made += 1;
        format!("v{}", self.made)
    }

    /// A variable of a type, or a field of the state.
    fn variable(&mut self, kind: Kind) -> String {
        let known: Vec<String> = self
            .names
            .iter()
            .filter(|(_, of)| *of == kind)
            .map(|(name, _)| name.clone())
            .collect();
        if !known.is_empty() && self.below(3) > 0 {
            let at = self.below(known.len());
            return known[at].clone();
        }
        let fields: &[&str] = match kind {
            Kind::Int => &["state['n']", "state['m']", "state['big']", "state.get('n')"],
            Kind::Float => &["state['x']", "state['y']"],
            Kind::Text => &["state['s']", "state['t']", "state['ws'][0]"],
            Kind::Bool => &["state['yes']", "(state['no'] is None)"],
            Kind::Ints => &["state['xs']", "list(state['d'].values())"],
            Kind::Texts => &["state['ws']", "list(state['d'])", "list(state['d'].keys())"],
            Kind::Dict => &["state['d']", "dict(zip(state['ws'], state['xs']))"],
        };
        self.pick(fields).to_owned()
    }

    fn any(&mut self, depth: usize) -> String {
        let kind = self.pick(&KINDS);
        self.expression(kind, depth)
    }

    fn expression(&mut self, kind: Kind, depth: usize) -> String {
        // Some operands have an unexpected type.
        let kind = match self.below(200) {
            0 => self.pick(&KINDS),
            _ => kind,
        };
        if depth == 0 || self.below(8) == 0 {
            return match self.below(3) {
                0 => self.literal(kind),
                _ => self.variable(kind),
            };
        }
        if self.below(12) == 0 {
            let (a, c, b) = (
                self.expression(kind, depth - 1),
                self.expression(Kind::Bool, depth - 1),
                self.expression(kind, depth - 1),
            );
            return format!("({a} if {c} else {b})");
        }
        let d = depth - 1;
        match kind {
            Kind::Int => self.int(d),
            Kind::Float => self.float(d),
            Kind::Text => self.string(d),
            Kind::Bool => self.condition(d),
            Kind::Ints => self.ints(d),
            Kind::Texts => self.texts(d),
            Kind::Dict => self.dict(d),
        }
    }

    fn literal(&mut self, kind: Kind) -> String {
        let these: &[&str] = match kind {
            Kind::Int => &[
                "0",
                "1",
                "-1",
                "2",
                "10",
                "255",
                "4611686018427387904",
                "123456789",
            ],
            Kind::Float => &[
                "0.0",
                "0.5",
                "-2.25",
                "1e16",
                "1e-7",
                "0.1",
                "3.0",
                "562949953421312.25",
            ],
            Kind::Text => &[
                "''", "'a'", "'b,c'", "'é🙂'", "\" x \"", "'12'", "'A\\n'", "r'\\d'", "','",
            ],
            Kind::Bool => &["True", "False"],
            Kind::Ints => &["[]", "[1, 2, 3]", "[5, -5, 0]", "([2] * 3)"],
            Kind::Texts => &["[]", "['a', 'b']", "['x', '', 'yy']"],
            Kind::Dict => &["{}", "{'a': 5}", "{'k': 1, 'é': 2}"],
        };
        self.pick(these).to_owned()
    }

    fn int(&mut self, d: usize) -> String {
        let (a, b) = (self.expression(Kind::Int, d), self.expression(Kind::Int, d));
        let x = self.expression(Kind::Float, d);
        let (s, t) = (
            self.expression(Kind::Text, d),
            self.expression(Kind::Text, d),
        );
        let (xs, m) = (
            self.expression(Kind::Ints, d),
            self.expression(Kind::Dict, d),
        );
        match self.below(22) {
            0 | 1 => format!("({a} + {b})"),
            2 => format!("({a} - {b})"),
            3 => format!("({a} * {b})"),
            4 => format!("({a} // ({b} or 3))"),
            5 => format!("({a} % ({b} or 5))"),
            6 => format!("len({s})"),
            7 => format!("len({xs})"),
            8 => format!("(-{a})"),
            9 => format!("abs({a})"),
            10 => format!("int({x})"),
            11 => format!("round({x})"),
            12 => format!("max({xs}, default={a})"),
            13 => format!("min({a}, {b})"),
            14 => format!("({xs} + [0, 1, 2])[{b} % 3]"),
            15 => format!("{m}.get({s}, {a})"),
            16 => format!("{s}.find({t})"),
            17 => format!("{s}.count({t})"),
            18 => format!("math.floor({x})"),
            19 => format!("math.gcd({a}, {b})"),
            20 => format!("len(set({xs}))"),
            _ => format!("(lambda p, q=1: p + q)({a})"),
        }
    }

    fn float(&mut self, d: usize) -> String {
        let (a, b) = (
            self.expression(Kind::Float, d),
            self.expression(Kind::Float, d),
        );
        let (m, n) = (self.expression(Kind::Int, d), self.expression(Kind::Int, d));
        match self.below(11) {
            0 => format!("({a} + {b})"),
            1 => format!("({a} - {n})"),
            2 => format!("({a} * {b})"),
            3 => format!("({m} / ({n} or 4))"),
            4 => format!("({a} / ({b} or 2.5))"),
            5 => format!("({a} % ({b} or 1.5))"),
            6 => format!("math.sqrt(abs({a}))"),
            7 => format!("float({n})"),
            8 => format!("abs({a})"),
            9 => format!("float(f\"{{{}:.2f}}\")", self.variable(Kind::Float)),
            _ => format!("max({a}, {b})"),
        }
    }

    fn string(&mut self, d: usize) -> String {
        let (s, t) = (
            self.expression(Kind::Text, d),
            self.expression(Kind::Text, d),
        );
        let n = self.expression(Kind::Int, d);
        let ws = self.expression(Kind::Texts, d);
        let any = self.any(d);
        let shown = self.pick(&KINDS);
        let method = self.pick(&[
            "upper",
            "lower",
            "strip",
            "lstrip",
            "rstrip",
            "title",
            "capitalize",
            "swapcase",
        ]);
        let spec = self.pick(&["", ".2f", "10.1f", ",.0f", "e", "+g", "%", "<12"]);
        let whole = self.pick(&["d", "5", "03d", ",", "x", "+d", "^9", ".1f"]);
        match self.below(18) {
            0 | 1 => format!("({s} + {t})"),
            2 | 3 => format!("{s}.{method}()"),
            4 => format!("{s}[{n} % 4:]"),
            5 => format!("{s}[::-1]"),
            6 => format!("str({any})"),
            7 => format!("repr({any})"),
            8 => format!("json.dumps({any}, sort_keys=True)"),
            // Before Python 3.12, the quotes of an f-string end it.
            9 => format!(
                "f\"{{{}}}|{{{}!r}}\"",
                self.variable(shown),
                self.variable(Kind::Text)
            ),
            10 => format!("f\"{{{}:{spec}}}\"", self.variable(Kind::Float)).replace(":}", "}"),
            11 => format!("f\"{{{}:{whole}}}\"", self.variable(Kind::Int)),
            12 => format!("{t}.join({ws})"),
            13 => format!("', '.join(f'{{w}}!' for w in {ws} if w)"),
            14 => format!("{s}.replace({t}, '-')"),
            15 => format!("{s}.partition({t} or '-')[0]"),
            16 => format!("{s}.rjust({n} % 9, '*')"),
            _ => format!("({s} * ({n} % 3))"),
        }
    }

    fn condition(&mut self, d: usize) -> String {
        let kind = self.pick(&KINDS);
        let (a, b) = (self.expression(kind, d), self.expression(kind, d));
        let (p, q) = (
            self.expression(Kind::Bool, d),
            self.expression(Kind::Bool, d),
        );
        let (s, t) = (
            self.expression(Kind::Text, d),
            self.expression(Kind::Text, d),
        );
        let order = self.pick(&["<", "<=", ">", ">="]);
        match self.below(12) {
            0 => format!("({a} == {b})"),
            1 => format!("({a} != {b})"),
            2 | 3 => format!("({a} {order} {b})"),
            4 => format!("({p} and {q})"),
            5 => format!("({p} or {q})"),
            6 => format!("(not {p})"),
            7 => format!("({s} in {t})"),
            8 => format!("isinstance({a}, (int, str))"),
            9 => format!("{s}.startswith({t})"),
            10 => format!("bool({a})"),
            _ => format!("any([{p}, {q}])"),
        }
    }

    fn ints(&mut self, d: usize) -> String {
        let (xs, ys) = (
            self.expression(Kind::Ints, d),
            self.expression(Kind::Ints, d),
        );
        let (a, b) = (self.expression(Kind::Int, d), self.expression(Kind::Int, d));
        let ws = self.expression(Kind::Texts, d);
        match self.below(12) {
            0 => format!("[{a}, {b}]"),
            1 => format!("({xs} + {ys})"),
            2 => format!("sorted({xs}, reverse=True)"),
            3 => format!("sorted(set({xs}))"),
            4 => format!("{xs}[1:]"),
            5 => format!("[i * {a} for i in {xs}]"),
            6 => format!("[i for i in {xs} if i > {a}]"),
            7 => format!("list(range({a} % 5, 8, 2))"),
            8 => format!("[i + j for i, j in zip({xs}, {ys})]"),
            9 => format!("list(map(len, {ws}))"),
            10 => format!("[*{xs}, {b}]"),
            _ => format!("list(reversed({xs}))"),
        }
    }

    fn texts(&mut self, d: usize) -> String {
        let (ws, vs) = (
            self.expression(Kind::Texts, d),
            self.expression(Kind::Texts, d),
        );
        let (s, t) = (
            self.expression(Kind::Text, d),
            self.expression(Kind::Text, d),
        );
        let m = self.expression(Kind::Dict, d);
        match self.below(11) {
            0 => format!("[{s}, {t}]"),
            1 => format!("({ws} + {vs})"),
            2 => format!("sorted({ws}, key=lambda w: (len(w), w))"),
            3 => format!("sorted({ws}, key=len, reverse=True)"),
            4 => format!("{s}.split()"),
            5 => format!("{s}.split({t} or ',')"),
            6 => format!("[w.strip() for w in {ws} if w]"),
            7 => format!("list({m})"),
            8 => format!("[f'{{k}}={{v}}' for k, v in {m}.items()]"),
            9 => "[row['k'] for row in state['rows'] if row['v']]".to_owned(),
            _ => format!("list(filter(lambda w: w > {s}, {ws}))"),
        }
    }

    fn dict(&mut self, d: usize) -> String {
        let (m, o) = (
            self.expression(Kind::Dict, d),
            self.expression(Kind::Dict, d),
        );
        let (s, a) = (
            self.expression(Kind::Text, d),
            self.expression(Kind::Int, d),
        );
        let (ws, xs) = (
            self.expression(Kind::Texts, d),
            self.expression(Kind::Ints, d),
        );
        match self.below(7) {
            0 => format!("{{{s}: {a}, 'z': 0}}"),
            1 => format!("{{**{m}, **{o}}}"),
            2 => format!("{{w: len(w) for w in {ws}}}"),
            3 => format!("{{k: v for k, v in {m}.items() if v}}"),
            4 => format!("dict(zip({ws}, {xs}))"),
            5 => format!("json.loads(json.dumps({m}))"),
            _ => format!("{m}.copy()"),
        }
    }

    fn statements(&mut self, count: usize, depth: usize) {
        for _ in 0..count {
            self.statement(depth);
        }
    }

    /// Writes the statements of a body; names that they bind are not bound after it.
    fn inner(&mut self, head: &str, count: usize, depth: usize) {
        self.line(head);
        self.indent += 1;
        let known = self.names.len();
        self.statements(count, depth - 1);
        self.names.truncate(known);
        self.indent -= 1;
    }

    fn statement(&mut self, depth: usize) {
        let kind = self.pick(&KINDS);
        let choice = if depth == 0 {
            self.below(9)
        } else {
            self.below(14)
        };
        match choice {
            0..=3 => {
                let value = self.expression(kind, 2);
                let name = self.fresh();
                self.line(&format!("{name} = {value}"));
                self.names.push((name, kind));
            }
            4 => {
                let Some((name, kind)) = self.names.last().cloned() else {
                    return self.line("pass");
                };
                let operator = match kind {
                    Kind::Int | Kind::Float => self.pick(&["+=", "-="]),
                    _ => "+=",
                };
                let value = self.expression(kind, 1);
                match kind {
                    Kind::Bool | Kind::Dict => self.line("pass"),
                    _ => self.line(&format!("{name} {operator} {value}")),
                }
            }
            5 => {
                let (m, k, v) = (
                    self.variable(Kind::Dict),
                    self.expression(Kind::Text, 1),
                    self.expression(Kind::Int, 1),
                );
                self.line(&format!("{m}[{k}] = {v}"));
            }
            6 => {
                let (xs, v) = (self.variable(Kind::Ints), self.expression(Kind::Int, 1));
                let method = self.pick(&["append(", "insert(0, "]);
                self.line(&format!("{xs}.{method}{v})"));
            }
            7 => {
                let (a, b) = (self.any(1), self.any(1));
                self.line(&format!("print({a}, {b}, sep='|')"));
            }
            8 if self.loops > 0 => {
                let (c, word) = (
                    self.expression(Kind::Bool, 1),
                    self.pick(&["break", "continue"]),
                );
                self.line(&format!("if {c}: {word}"));
            }
            8 => {
                let (a, b) = (
                    self.expression(Kind::Int, 1),
                    self.expression(Kind::Text, 1),
                );
                let (p, q) = (self.fresh(), self.fresh());
                self.line(&format!("{p}, {q} = {a}, {b}"));
                self.names.push((p, Kind::Int));
                self.names.push((q, Kind::Text));
            }
            9 | 10 => {
                let c = self.expression(Kind::Bool, 2);
                self.inner(&format!("if {c}:"), 2, depth);
                self.inner("else:", 1, depth);
            }
            11 => {
                let (xs, name) = (self.expression(Kind::Ints, 1), self.fresh());
                self.loops += 1;
                self.names.push((name.clone(), Kind::Int));
                self.inner(&format!("for {name} in {xs}[:4]:"), 2, depth);
                self.names.retain(|(known, _)| *known != name);
                self.loops -= 1;
            }
            12 => {
                let (m, k) = (self.expression(Kind::Dict, 1), self.fresh());
                self.loops += 1;
                self.names.push((k.clone(), Kind::Text));
                self.inner(&format!("for {k}, _v in list({m}.items()):"), 2, depth);
                self.names.retain(|(known, _)| *known != k);
                self.loops -= 1;
            }
            _ => {
                let (name, p, loops) = (self.fresh(), self.fresh(), self.loops);
                let known = std::mem::take(&mut self.names);
                self.loops = 0;
                self.names.push((p.clone(), Kind::Int));
                self.line(&format!("def {name}({p}, q='x'):"));
                self.indent += 1;
                self.statements(2, 0);
                let value = self.expression(kind, 2);
                self.line(&format!("return {value}"));
                self.indent -= 1;
                (self.names, self.loops) = (known, loops);
                let (argument, result) = (self.expression(Kind::Int, 1), self.fresh());
                self.line(&format!("{result} = {name}({argument})"));
                self.names.push((result, kind));
            }
        }
    }
}

/// Returns the program of a number.
fn program(number: u64) -> String {
    let mut writer = Writer {
        random: number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        text: "import json, math\n".to_owned(),
        indent: 0,
        names: Vec::new(),
        made: 0,
        loops: 0,
    };
    writer.statements(7, 2);
    let names: Vec<String> = writer.names.iter().map(|(name, _)| name.clone()).collect();
    writer.line(&format!("return [{}]", names.join(", ")));
    writer.text
}

fn random_programs_agree_with_cpython() {
    let Some(theirs) = python3() else { return };
    wait(async {
        let ours = python();
        let (mut ended, mut refusals) = (0, 0);
        let mut wrong = Vec::new();
        let programs =
            std::env::var("PROPTEST_CASES").map_or(PROGRAMS, |cases| cases.parse().unwrap());
        for number in 1..=programs {
            let source = program(number);
            if check(&source, 1).is_err() {
                refusals += 1;
                continue;
            }
            let embedded = with_state(&ours, &source, state()).await;
            if matches!(&embedded, Err(failure) if refused(failure)) {
                refusals += 1;
                continue;
            }
            let reference = with_state(&theirs, &source, state()).await;
            ended += u64::from(reference.is_ok());
            if !same(&embedded, &reference) {
                wrong.push(format!(
                    "{number}:\n{source}\nembedded: {embedded:?}\nCPython: {reference:?}"
                ));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
        assert!(ended * 3 > programs, "only {ended} of {programs} end");
        assert!(
            refusals * 4 < programs,
            "{refusals} of {programs} are refused"
        );
    });
}
