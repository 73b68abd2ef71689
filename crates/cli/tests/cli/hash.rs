//! `cachalot hash`: the very lines of `sha256sum`.

use crate::support::Home;

#[test]
fn hash_lines_equal_those_of_sha256sum() {
    let home = Home::new();
    home.write("abc.txt", "abc");
    home.write("with space.txt", "");
    let ran = home.run(&["hash", "abc.txt", "with space.txt"]).ok();
    assert_eq!(
        ran.stdout,
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  abc.txt\n\
         e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  with space.txt\n"
    );
}

#[test]
fn hash_supports_other_algorithms_and_json() {
    let home = Home::new();
    home.write("abc.txt", "abc");
    let md5 = home.run(&["hash", "-a", "md5", "abc.txt"]).ok();
    assert!(
        md5.stdout
            .starts_with("900150983cd24fb0d6963f7d28e17f72  abc.txt")
    );
    let json = home
        .run(&["hash", "--algorithm", "blake2b", "--json", "abc.txt"])
        .ok()
        .json();
    assert_eq!(json[0]["size_bytes"], 3);
    assert!(
        json[0]["hash"]
            .as_str()
            .unwrap()
            .starts_with("ba80a53f981c4d0d")
    );
}

#[test]
fn a_missing_file_does_not_hide_the_others() {
    let home = Home::new();
    home.write("abc.txt", "abc");
    let ran = home.run(&["hash", "missing.txt", "abc.txt"]).fails(1);
    assert!(
        ran.stdout.contains("abc.txt") && ran.stderr.contains("missing.txt"),
        "{ran}"
    );
    let unknown = home.run(&["hash", "-a", "sha512", "abc.txt"]).fails(2);
    assert!(unknown.stderr.contains("sha256"), "{unknown}");
}

#[cfg(unix)]
#[test]
fn file_names_are_escaped_like_sha256sum() {
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let home = Home::new();
    for (name, escaped) in [
        ("a\nb", r"a\nb"),
        (r"c\d", r"c\\d"),
        (r"\n", r"\\n"),
        ("e\rf", r"e\rf"),
    ] {
        home.write(name, "");
        let ran = home.run(&["hash", name]).ok();
        assert_eq!(ran.stdout, format!("\\{EMPTY}  {escaped}\n"));
        let json = home.run(&["hash", "--json", name]).ok().json();
        assert_eq!(json[0]["path"], name, "JSON needs no escapes of ours");
    }
}
