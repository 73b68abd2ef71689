//! The tests of scripts in Python.

use std::process::Command;

use crate::files;

#[test]
fn the_tests_of_scripts_pass() {
    let mut count = 0;
    for entry in
        std::fs::read_dir(files::root().join("scripts/tests")).expect("the folder is there")
    {
        let path = entry.expect("it is readable").path();
        if path.extension().is_none_or(|extension| extension != "py") {
            continue;
        }
        count += 1;
        let done = Command::new("python3")
            .arg("-B")
            .arg(&path)
            .output()
            .expect("python3 runs");
        let reported = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{}:\n{reported}", path.display());
    }
    assert!(count > 0, "no tests of scripts");
    println!("{count} files with tests of scripts");
}
