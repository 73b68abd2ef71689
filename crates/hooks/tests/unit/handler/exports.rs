//! Unit tests of `src/handler/exports.rs`.

use super::*;

fn environment() -> BTreeMap<String, String> {
    [("PATH".to_owned(), "/bin".to_owned())].into()
}

#[test]
fn plain_exports_are_read_without_a_shell() {
    for (lines, expected) in [
        ("", &[][..]),
        ("export A=b\n", &[("A", "b")]),
        ("A=b", &[("A", "b")]),
        (
            "export A='b c' B=\"d e\"\nexport C=",
            &[("A", "b c"), ("B", "d e"), ("C", "")],
        ),
        (
            "declare -x A=\"a \\\"b\\\" \\$c \\d\"",
            &[("A", "a \"b\" $c \\d")],
        ),
        (
            "export PATH=\"$PATH:./bin\"\nexport PATH=${PATH}:x",
            &[("PATH", "/bin:./bin:x")],
        ),
        (
            "# why\n  export A=a; export B=$A$NOBODY  # so\r\n",
            &[("A", "a"), ("B", "a")],
        ),
        ("export A='it'\\''s'\"!\"", &[("A", "it's!")]),
        ("export A='two\nlines'", &[("A", "two\nlines")]),
    ] {
        let expected = expected
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        assert_eq!(
            plain(lines, &environment()),
            Some(expected.collect()),
            "{lines}"
        );
    }
}

#[test]
fn other_shell_syntax_requires_a_shell() {
    for lines in [
        "export A=$(date)",
        "export A=`date`",
        "export A=\"$(date)\"",
        "export A=${B:-c}",
        "export A=$'a\\n'",
        "export A=~/x",
        "export A=*",
        "export A",
        "source venv/bin/activate",
        "A=b command",
        "export A=b && export B=c",
        "export A='open",
        "export A=\"open",
    ] {
        assert_eq!(plain(lines, &environment()), None, "{lines}");
    }
}
