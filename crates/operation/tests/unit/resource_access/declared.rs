//! Unit tests of `src/resource_access/declared.rs`.

use serde_json::json;

use super::*;

fn declared(arguments: Value, read_only: bool) -> ResourceAccess {
    ResourceAccess::declared(&json!({}), arguments.as_object().unwrap(), read_only)
}

#[test]
fn paths_are_recognized_by_argument_name() {
    for name in [
        "path",
        "Path",
        "paths",
        "file",
        "file_path",
        "filePath",
        "outputDir",
        "source",
        "destination",
        "notebook-path",
        "src",
        "cwd",
        "rootDirectory",
    ] {
        let resource_access = declared(json!({ name: ".env" }), true);
        assert_eq!(resource_access.reads, [PathBuf::from(".env")], "{name}");
    }
    for name in ["content", "pathological", "profile", "x", "description"] {
        let resource_access = declared(json!({ name: ".env" }), true);
        assert_eq!(resource_access, ResourceAccess::default(), "{name}");
    }
}

#[test]
fn paths_in_lists_and_objects_are_found() {
    let resource_access = declared(
        json!({"paths": ["a", "b"], "edits": [{"file": "c", "text": "d"}], "files": [{"name": "e"}]}),
        false,
    );
    let writes: Vec<_> = resource_access
        .writes
        .iter()
        .map(|path| path.to_str().unwrap())
        .collect();
    assert_eq!(writes, ["a", "b", "c", "e"]);
    assert!(resource_access.reads.is_empty());
}

#[test]
fn urls_and_schema_formats_are_recognized() {
    let resource_access = declared(
        json!({"uri": "file:///etc/pass%77d", "page": "https://a.example/x"}),
        true,
    );
    assert_eq!(resource_access.reads, [PathBuf::from("/etc/passwd")]);
    assert_eq!(resource_access.urls, ["https://a.example/x"]);
    let schema = json!({"properties": {"x": {"format": "path"}}});
    let arguments = json!({"x": "a"});
    let resource_access = ResourceAccess::declared(&schema, arguments.as_object().unwrap(), true);
    assert_eq!(resource_access.reads, [PathBuf::from("a")]);
}

#[test]
fn commands_are_lines_or_argument_lists() {
    let resource_access = declared(json!({"cmd": "ls -l", "command": ["rm", "x"]}), false);
    let texts: Vec<_> = resource_access
        .commands
        .into_iter()
        .map(|command| command.text)
        .collect();
    assert_eq!(
        texts,
        [
            CommandText::Line("ls -l".to_owned()),
            CommandText::Program(vec!["rm".to_owned(), "x".to_owned()]),
        ]
    );
}
