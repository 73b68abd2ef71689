//! Unit tests of `src/handler/expand.rs`.

use super::*;

fn expanded(text: &str, spelling: Spelling) -> String {
    expand(text, spelling, |name| match name {
        "HOME" => Ok("/home/a"),
        "nested" => Ok("${env.HOME}"),
        _ => Ok(""),
    })
    .unwrap()
}

#[test]
fn only_variable_references_are_expanded() {
    for (text, braced, shell) in [
        ("", "", ""),
        ("${env.HOME}/x", "/home/a/x", "/home/a/x"),
        ("a${env.HOME}${env.NO}b", "a/home/ab", "a/home/ab"),
        ("$HOME/x", "$HOME/x", "/home/a/x"),
        ("${HOME}x", "${HOME}x", "/home/ax"),
        ("$HOMEx", "$HOMEx", ""),
        ("${env.nested}", "${env.HOME}", "${env.HOME}"),
        (
            "$ $$ $1 ${ ${} ${env.}",
            "$ $$ $1 ${ ${} ${env.}",
            "$ $$ $1 ${ ${} ${env.}",
        ),
        ("${env.HOME", "${env.HOME", "${env.HOME"),
        ("${env.A-B} é$é", "${env.A-B} é$é", "${env.A-B} é$é"),
    ] {
        assert_eq!(expanded(text, Spelling::Braced), braced, "{text}");
        assert_eq!(expanded(text, Spelling::Shell), shell, "{text}");
    }
}
