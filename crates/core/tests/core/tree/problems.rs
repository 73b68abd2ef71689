use super::{codes, problems, read};

#[test]
fn duplicate_key_problem_names_the_first_place() {
    let found = problems("a: 1\nb:\n  é: 1\n  'é': {x: 1, x: 2}\n\"a\": 3\n");
    let shown: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert!(
        shown[0].starts_with(
            "agent.yaml:4:3: the key `é` is already in this mapping, at agent.yaml:3:3"
        )
    );
    assert!(shown[1].contains("4:15") && shown[2].contains("5:1"));
    assert!(
        found
            .iter()
            .all(|problem| problem.code == "duplicate-key" && problem.help.is_some())
    );
    assert_eq!(codes("1: a\n'1': b\n"), ["duplicate-key@2:1"]);
    assert_eq!(codes("a: &x {}\n<<: *x\n<<: *x\n"), ["duplicate-key@3:1"]);
    assert_eq!(codes("\"\\u0061\": 1\na: 2\n"), ["duplicate-key@2:1"]);
}

#[test]
fn integers_beyond_64_bits_must_be_quoted() {
    for text in [
        "18446744073709551616",
        "-9223372036854775809",
        "+99999999999999999999",
        "0xFFFFFFFFFFFFFFFFF",
        "0o7777777777777777777777777",
    ] {
        let found = problems(&format!("a: {text}\n"));
        assert_eq!(found[0].code, "integer-too-large", "{text}");
        assert!(found[0].help.as_ref().unwrap().contains("quotes"));
    }
    let long = "9".repeat(100_000);
    assert!(problems(&long)[0].message.len() < 200);
    assert_eq!(codes("a: 1e999\n"), ["number-too-large@1:4"]);
    assert_eq!(
        read("a: '18446744073709551616'")
            .get("a")
            .unwrap()
            .as_text()
            .unwrap()
            .len(),
        20
    );
}

#[test]
fn non_fatal_problems_are_reported_together_in_file_order() {
    assert_eq!(
        codes(
            "a: !thing 1\nb: 99999999999999999999\na: 2\nc: &r [*r]\n{}: d\ne: !!int x\nf:\n  <<: 3\n"
        ),
        [
            "unknown-tag@1:4",
            "integer-too-large@2:4",
            "duplicate-key@3:1",
            "recursive-alias@4:8",
            "complex-key@5:1",
            "wrong-type@6:10",
            "wrong-type@8:7",
        ],
    );
    assert_eq!(
        codes("a: 1\na: 2\nb: c: d\n"),
        ["duplicate-key@2:1", "yaml-syntax@3:5"]
    );
}

#[test]
fn tab_indentation_has_its_own_problem() {
    for (text, place) in [
        ("a:\n\tb: 1\n", "2:1"),
        ("a:\n  b:\n  \tc: 1\n", "3:3"),
        ("a: 1\n\tb: 2\n", "2:1"),
        ("a:\n\t- b\n", "2:1"),
        ("é: ü\na:\n  - b:\n\t- c", "4:1"),
        ("a: |\n\tcode\n", "2:1"),
    ] {
        assert_eq!(
            codes(text),
            [format!("tab-indentation@{place}")],
            "{text:?}"
        );
    }
    assert!(
        problems("a:\n\tb: 1")[0]
            .help
            .as_ref()
            .unwrap()
            .contains("spaces")
    );
    assert_eq!(
        read("a:\t'1'\nb: x\ty\nc: |\n  \ttab\n").to_value()["c"],
        "\ttab\n"
    );
}

#[test]
fn invalid_yaml_is_refused_with_its_position() {
    for (text, place, help) in [
        ("a: b: c\n", "1:5", "quotes"),
        ("a: \"x\nb: 1\n", "1:4", "close the quotes"),
        ("a: `x`\n", "1:4", "quotes"),
        ("a: @x\n", "1:4", "quotes"),
        ("a: %x\n", "1:4", "quotes"),
        ("a:\n  - x\n  b: 2\n", "3:3", "indentation"),
        ("a: *n\n", "1:4", "&name"),
        ("a: [1, 2\nb: 3\n", "2:2", "brackets"),
        ("é: 'it's'\n", "1:8", "''"),
        ("a: {{ x }} y\n", "", "put the template in quotes"),
        ("a: x\0y\n", "1:5", "control character"),
        ("a: 1\nb\n", "3:1", "indentation"),
        ("a: }\n", "1:4", ""),
        ("a:\tx\n", "1:4", "a space, not a tab"),
        ("a: \"\\U00110000\"\n", "1:4", "write the character itself"),
    ] {
        let found = problems(text);
        let last = found.last().unwrap();
        assert_eq!(last.code, "yaml-syntax", "{text:?} {last}");
        assert!(
            last.help.as_ref().unwrap().contains(help),
            "{text:?} {last}"
        );
        if !place.is_empty() {
            let found = last.place.as_ref().unwrap();
            assert_eq!(
                format!("{}:{}", found.line, found.column),
                place,
                "{text:?}"
            );
        }
    }
}

#[test]
fn unquoted_template_is_recognized() {
    for text in [
        "a: {{ x }}\n",
        "a: {{x}}\n",
        "- {{ x.y }}\n",
        "a: [{{ x }}]\n",
    ] {
        let found = problems(text);
        assert_eq!(found[0].code, "complex-key", "{text:?}");
        assert!(
            found[0].help.as_ref().unwrap().contains("template"),
            "{text:?}"
        );
        assert_eq!(found.len(), 1, "{text:?}");
    }
    assert_eq!(codes("? [a]\n: 1\nb: 2\n"), ["complex-key@1:3"]);
    assert!(
        problems("? {a: 1}\n: 1\n")[0]
            .help
            .as_ref()
            .unwrap()
            .contains("use a text")
    );
    assert_eq!(codes("a: &x [1]\n*x : 2\n"), ["complex-key@2:1"]);
}

#[test]
fn empty_and_multi_document_files_are_refused() {
    assert_eq!(codes("a: 1\n---\nb: 2\n"), ["many-documents@2:1"]);
    assert_eq!(codes("a: 1\n...\nb: 2\n"), ["many-documents@3:1"]);
    assert_eq!(codes("a: 1\n---\n"), ["many-documents@2:1"]);
    for text in [
        "",
        " \n\n",
        "# only a comment\n",
        "---\n",
        "\u{feff}",
        "---\n# x\n...\n",
    ] {
        assert!(codes(text)[0].starts_with("empty-file@1:1"), "{text:?}");
    }
}

#[test]
fn tags_outside_the_core_schema_and_tags_that_do_not_fit_are_problems() {
    for text in [
        "a: !!binary aGk=",
        "a: !!set {x}",
        "a: !thing {}",
        "a: !!python/object:x y",
        "a: &b !x [1]",
    ] {
        assert_eq!(codes(text), ["unknown-tag@1:4"], "{text:?}");
    }
    for text in [
        "a: !!int x",
        "a: !!bool 1",
        "a: !!null 0",
        "a: !!float x",
        "a: !!map [1]",
        "a: !!seq {}",
        "a: !!str [1]",
        "a: !!seq x",
    ] {
        assert!(codes(text)[0].starts_with("wrong-type@1:"), "{text:?}");
    }
    assert_eq!(codes("a: !x!y z"), ["yaml-syntax@1:4"]);
}

#[test]
fn merge_key_requires_a_mapping() {
    for text in ["<<: 1", "<<: [1]", "<<: [{}, x]", "a: &x 1\n<<: *x"] {
        assert!(codes(text)[0].starts_with("wrong-type@"), "{text:?}");
    }
}

#[test]
fn lone_surrogate_is_refused_by_name() {
    for (text, place) in [
        (r#"{"a": "b\ud83d"}"#, "1:9"),
        (r#"["\ude00\ud83d"]"#, "1:3"),
        (r#"["\ud83d\ude00", "\ud83dx"]"#, "1:19"),
        (r#"["\\\\\ud83d\\ude00"]"#, "1:7"),
        ("a: \"\\ud83d\\u0041\"\n", "1:5"),
    ] {
        let found = problems(text);
        assert_eq!(codes(text), [format!("yaml-syntax@{place}")], "{text}");
        assert!(
            found[0].message.contains("is a lone surrogate"),
            "{}",
            found[0]
        );
        assert!(found[0].help.as_ref().unwrap().contains("both escapes"));
    }
    // Any other number that is no character.
    assert!(!problems(r#""\U00110000""#)[0].message.contains("surrogate"));
}
