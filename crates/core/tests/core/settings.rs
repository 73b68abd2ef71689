//! Settings that structs declare: they are the same as a table that is declared by hand.

use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::config::{
    CallArguments, Literal, Named, Parameter, ParameterKind as Kind, Settings, Table, Values, key,
    no_effect, required, section, tool_schema,
};
use cachalot_core::tree::{Node, parse};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Settings)]
enum Mode {
    Slow,
    #[setting(key = "very-fast")]
    Fast,
}

const OF_OTHERS: &[Parameter] = &[no_effect("color", "it is for others")];

/// A section.
#[derive(Debug, PartialEq, Settings)]
#[settings(name = "`section`", also = OF_OTHERS, check = check)]
struct Section {
    /// The name.
    name: String,
    /// The mode.
    #[setting(default = "slow")]
    mode: Mode,
    /// The count, which may be
    /// described on two lines.
    #[setting(range = 1..=10, default = 3, alias = "number")]
    count: u8,
    /// The part.
    #[setting(range = 0.0..=1.0)]
    part: Option<f64>,
    /// The pause.
    pause: Option<Duration>,
    /// The flag.
    #[setting(key = "Flag")]
    flag: bool,
    /// The names.
    names: Vec<String>,
    inner: Option<Inner>,
    /// Sections by name.
    each: Vec<Named<Inner>>,
    #[setting(default)]
    other: Other,
    #[setting(flatten)]
    shared: Shared,
}

/// The inner section.
#[derive(Debug, PartialEq, Settings)]
#[settings(name = "`inner`")]
struct Inner {
    /// The depth.
    #[setting(range = 2..)]
    depth: u64,
}

/// Another section.
#[derive(Debug, Default, PartialEq, Settings)]
#[settings(name = "`other`", open)]
struct Other {
    /// The limit.
    limit: Option<u32>,
}

#[derive(Debug, PartialEq, Settings)]
#[settings(name = "shared keys", default)]
struct Shared {
    /// The text.
    text: Option<String>,
}

/// Limits.
#[derive(Debug, PartialEq, Settings)]
#[settings(name = "limits", sentence = "Other words.", default)]
struct Limits {
    /// The most.
    #[setting(default = 2 << 3)]
    most: u32,
    /// The pause.
    #[setting(default = "2s")]
    pause: Option<Duration>,
    /// The part.
    #[setting(default = HALF)]
    part: f64,
    #[setting(flatten)]
    shared: Shared,
    /// The last one.
    last: Option<u8>,
}

const HALF: f64 = 0.5;

fn check(section: &Section, values: Values<'_>, problems: &mut Vec<Problem>) {
    if section.count == 7 {
        problems.push(Problem::new("seven", "seven").at(&values.place("count")));
    }
}

/// The same section, declared by hand.
static TABLE: Table = Table::new(
    "`section`",
    "A section.",
    &[
        &[
            required("name", Kind::Text, "The name."),
            key("mode", Kind::Word(&["slow", "very-fast"]), "The mode.")
                .default(Literal::Text("slow")),
            key(
                "count",
                Kind::IntegerIn(1, 10),
                "The count, which may be described on two lines.",
            )
            .default(Literal::Integer(3))
            .with_aliases(&["number"]),
            key("part", Kind::NumberIn(0.0, 1.0), "The part."),
            key(
                "pause",
                Kind::Duration(cachalot_core::duration::Range::POSITIVE),
                "The pause.",
            ),
            key("Flag", Kind::Boolean, "The flag."),
            key("names", Kind::Texts, "The names."),
            section("inner", &INNER),
            key("each", Kind::Tables(&INNER), "Sections by name."),
            section("other", &OTHER),
            key("text", Kind::Text, "The text."),
        ],
        OF_OTHERS,
    ],
);
static INNER: Table = Table::new(
    "`inner`",
    "The inner section.",
    &[&[required(
        "depth",
        Kind::IntegerIn(2, u64::MAX),
        "The depth.",
    )]],
);
static OTHER: Table = Table::new(
    "`other`",
    "Another section.",
    &[&[key(
        "limit",
        Kind::IntegerIn(0, u32::MAX as u64),
        "The limit.",
    )]],
)
.open();

fn tree(text: &str) -> Node {
    parse("a.yaml", text).unwrap()
}

const FULL: &str =
    "{name: a, mode: very-fast, number: 9, part: 0.5, pause: 2s, Flag: true, names: [x], text: t,
    inner: {depth: 2}, each: {one: {depth: 3}, two: {depth: 4}}, other: {limit: 5, unknown: 6}}";

#[test]
fn derived_settings_have_the_schema_and_the_rows_of_a_table() {
    let derived = Section::TABLE;
    assert_eq!(derived.schema(true), TABLE.schema(true));
    let rows = |table: &'static Table| -> Vec<_> {
        let rows = table.rows("a.", true).into_iter();
        rows.map(|row| (row.key, row.parameter.description()))
            .collect()
    };
    assert_eq!(rows(derived), rows(&TABLE));
}

#[test]
fn fields_have_the_values_of_the_file() {
    let mut problems = Vec::new();
    let section = Section::read(&tree(FULL), &mut problems).unwrap();
    assert_eq!(problems, []);
    let expected = Section {
        name: "a".to_owned(),
        mode: Mode::Fast,
        count: 9,
        part: Some(0.5),
        pause: Some(Duration::from_secs(2)),
        flag: true,
        names: vec!["x".to_owned()],
        inner: Some(Inner { depth: 2 }),
        each: [("one", 3), ("two", 4)]
            .map(|(name, depth)| Named {
                name: name.to_owned(),
                value: Inner { depth },
            })
            .into(),
        other: Other { limit: Some(5) },
        shared: Shared {
            text: Some("t".to_owned()),
        },
    };
    assert_eq!(section, expected);

    let section = Section::read(&tree("{name: a, mode: ~}"), &mut problems).unwrap();
    assert_eq!(problems, []);
    let expected = Section {
        name: "a".to_owned(),
        mode: Mode::Slow,
        count: 3,
        part: None,
        pause: None,
        flag: false,
        names: Vec::new(),
        inner: None,
        each: Vec::new(),
        other: Other::default(),
        shared: Shared { text: None },
    };
    assert_eq!(section, expected);
}

#[test]
fn problems_are_those_of_a_table_and_of_the_check() {
    for text in [
        "{}",
        "5",
        "{name: a, mode: fast, count: 11, part: 2, pause: 0, Flag: x, names: [1], inner: {}, each: {one: 5}, color: x, nmae: z}",
        "{name: a, count: 1, number: 2}",
    ] {
        let node = tree(text);
        let (mut derived, mut by_hand) = (Vec::new(), Vec::new());
        let section = Section::read(&node, &mut derived);
        TABLE.read(&node, &mut by_hand);
        assert!(!derived.is_empty());
        assert_eq!(derived, by_hand, "{text}: {section:?}");
    }
    let mut problems = Vec::new();
    assert!(Section::read(&tree("{name: a, count: 7}"), &mut problems).is_some());
    let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(found, ["a.yaml:1:18: seven [seven]"]);
}

#[test]
fn struct_has_the_declared_defaults() {
    let expected = Limits {
        most: 16,
        pause: Some(Duration::from_secs(2)),
        part: 0.5,
        shared: Shared { text: None },
        last: None,
    };
    assert_eq!(Limits::default(), expected);
    let mut problems = Vec::new();
    assert_eq!(
        Limits::read(&tree("{}"), &mut problems).unwrap(),
        Limits::default()
    );
    assert_eq!(problems, []);
    // An invalid value does not hide the rest.
    let read = Limits::read(&tree("{most: x, pause: 1, last: y}"), &mut problems);
    let pause = Some(Duration::from_secs(1));
    assert_eq!(
        read.unwrap(),
        Limits {
            pause,
            ..Limits::default()
        }
    );
    assert_eq!(problems.len(), 2);
    let keys: Vec<&str> = Limits::TABLE.parameters().map(|key| key.name).collect();
    assert_eq!(keys, ["most", "pause", "part", "text", "last"]);
    assert_eq!(Limits::TABLE.doc, "Other words.");
}

const SECOND: Parameter = key("second", Kind::Text, "The second.");

#[derive(Debug, PartialEq, Settings)]
#[settings(name = "`partial`", sentence = "", check = complete)]
struct Partial {
    /// The first.
    #[setting(required, then = SECOND)]
    first: Option<String>,
    /// The third.
    third: Option<u64>,
    #[setting(flatten)]
    inner: Option<Inner>,
    #[setting(skip)]
    texts: Vec<String>,
}

fn complete(partial: &mut Partial, values: Values<'_>, _: &mut Vec<Problem>) {
    partial.texts.extend(partial.first.clone());
    partial.texts.extend(values.string(SECOND.name));
}

#[test]
fn a_struct_is_read_without_its_required_keys_and_completed() {
    let names: Vec<_> = Partial::TABLE.parameters().map(|it| it.name).collect();
    assert_eq!(names, ["first", "second", "third", "depth"]);
    let mut problems = Vec::new();
    let partial = Partial::read(&tree("{second: b, third: 3}"), &mut problems).unwrap();
    let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "a.yaml:1:1: `partial` needs `first` [missing-key]; add `first: …`",
            "a.yaml:1:1: `partial` needs `depth` [missing-key]; add `depth: …`",
        ]
    );
    let expected = Partial {
        first: None,
        third: Some(3),
        inner: None,
        texts: vec!["b".to_owned()],
    };
    assert_eq!(partial, expected);
}

#[test]
fn a_table_may_lack_keys_of_a_struct() {
    static FEWER: Table = Table::new("`fewer`", "", &[Partial::PARAMETERS.split_at(2).0]);
    let node = tree("{first: a}");
    let mut problems = Vec::new();
    let values = FEWER.read(&node, &mut problems).unwrap();
    let partial = Partial::from_values(values, &mut problems).unwrap();
    assert_eq!(problems, []);
    assert_eq!((partial.third, partial.texts), (None, vec!["a".to_owned()]));
}

#[derive(CallArguments)]
#[expect(dead_code, reason = "only its declaration is used")]
struct Call {
    /// The file.
    path: String,
    /// The number of lines.
    #[setting(range = 1..)]
    lines: Option<u64>,
}

#[test]
fn arguments_are_the_parameters_of_a_tool() {
    let schema = tool_schema(Call::PARAMETERS);
    let by_hand = tool_schema(&[
        required("path", Kind::Text, "The file."),
        key(
            "lines",
            Kind::IntegerIn(1, u64::MAX),
            "The number of lines.",
        ),
    ]);
    assert_eq!(schema, by_hand);
}
