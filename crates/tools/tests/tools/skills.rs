//! `skills_list`, `skill_view`, `skill_manage`.

use std::os::unix::fs::symlink;
use std::sync::Arc;

use cachalot_core::{DigestKey, EffectTarget, EffectTargets, SecretSet};
use cachalot_tools::CacheClass;
use cachalot_tools::builtin::skills;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::tool_fixture::{ToolFixture, object, text};

struct SkillsFixture {
    tool_fixture: ToolFixture,
    data: TempDir,
}

const PDF: &str = "---\nname: pdf\ndescription: Reads PDF files.\n---\n\nUse pdftotext.\n";

impl SkillsFixture {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let tool_fixture = ToolFixture::with(skills(Some(data.path())));
        Self { tool_fixture, data }
    }

    fn user_skill(&self, name: &str, text: &str) {
        let folder = self.data.path().join("skills").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("SKILL.md"), text).unwrap();
    }

    async fn manage(&self, arguments: Value) -> String {
        self.tool_fixture.done("skill_manage", arguments).await
    }

    async fn refused(&self, arguments: Value) -> String {
        self.tool_fixture.fails("skill_manage", arguments).await
    }

    async fn list(&self) -> String {
        self.tool_fixture.done("skills_list", json!({})).await
    }
}

fn skill(description: &str) -> String {
    format!("---\ndescription: {description}\n---\nBody of {description}\n")
}

#[tokio::test]
async fn skills_of_the_workspace_override_those_of_the_user() {
    let skills_fixture = SkillsFixture::new();
    assert_eq!(skills_fixture.list().await, "There are no skills yet.");
    skills_fixture.user_skill("both", &skill("The user's."));
    skills_fixture.user_skill("mine", &skill("Mine."));
    skills_fixture
        .tool_fixture
        .write("skills/both/SKILL.md", skill("The project's."));
    skills_fixture
        .tool_fixture
        .write("skills/plain/SKILL.md", PDF);
    skills_fixture
        .tool_fixture
        .write(".cachalot/skills/own/SKILL.md", skill("Own."));
    skills_fixture
        .tool_fixture
        .write("skills/none/README.md", "no skill");
    skills_fixture
        .tool_fixture
        .write("skills/Wrong Name/SKILL.md", PDF);
    skills_fixture
        .tool_fixture
        .write("skills/broken/SKILL.md", "no head");
    let listed = skills_fixture.list().await;
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines[0], "- both (workspace): The project's.");
    assert!(
        lines[1].starts_with("- broken (workspace) [not usable: SKILL.md must begin"),
        "{listed}"
    );
    assert_eq!(lines[2], "- mine (user): Mine.");
    assert_eq!(lines[3], "- own (workspace): Own.");
    assert_eq!(
        lines[4],
        "- plain (workspace, its file names it `pdf`): Reads PDF files."
    );
    assert_eq!(lines.len(), 5);
    let viewed = skills_fixture
        .tool_fixture
        .done("skill_view", json!({ "name": "both" }))
        .await;
    assert!(viewed.contains("Body of The project's."), "{viewed}");
}

#[tokio::test]
async fn skill_view_lists_its_files() {
    let skills_fixture = SkillsFixture::new();
    skills_fixture
        .tool_fixture
        .write("skills/pdf/SKILL.md", PDF);
    skills_fixture
        .tool_fixture
        .write("skills/pdf/scripts/run.py", "print(1)");
    skills_fixture
        .tool_fixture
        .write("skills/pdf/notes.md", "notes");
    let viewed = skills_fixture
        .tool_fixture
        .done("skill_view", json!({ "name": "pdf" }))
        .await;
    assert_eq!(
        viewed,
        format!("{PDF}\n\n[Other files in skills/pdf: notes.md, scripts/run.py]")
    );
    let view = async |file: &str| {
        skills_fixture
            .tool_fixture
            .call("skill_view", json!({ "name": "pdf", "file": file }))
            .await
    };
    assert_eq!(text(&view("scripts/run.py").await), "print(1)");
    skills_fixture
        .tool_fixture
        .write("skills/pdf/picture.png", b"\x89PNG");
    skills_fixture
        .tool_fixture
        .write("skills/pdf/large", "x".repeat(300_000));
    skills_fixture
        .tool_fixture
        .write("secret", "outside the skill");
    symlink(
        skills_fixture.tool_fixture.path("secret"),
        skills_fixture.tool_fixture.path("skills/pdf/link"),
    )
    .unwrap();
    for (file, why) in [
        ("none.md", "has no file `none.md`; its files are: SKILL.md"),
        ("scripts", "is a directory"),
        ("picture.png", "is not UTF-8"),
        ("large", "is larger than"),
        ("../pdf/SKILL.md", "without `..`"),
        ("/etc/passwd", "is no file of a skill"),
        ("link", "leads out of the skill's folder"),
    ] {
        let output = view(file).await;
        assert!(
            output.is_error && text(&output).contains(why),
            "{file}: {}",
            text(&output)
        );
    }
    for (name, why) in [
        ("pfd", "did you mean `pdf`?"),
        ("../pdf", "there is no skill"),
        ("zzz", "skills_list names"),
    ] {
        let shown = skills_fixture
            .tool_fixture
            .fails("skill_view", json!({ "name": name }))
            .await;
        assert!(shown.contains(why), "{name}: {shown}");
    }
}

#[tokio::test]
async fn skill_readers_record_witnesses() {
    let skills_fixture = SkillsFixture::new();
    skills_fixture
        .tool_fixture
        .write("skills/pdf/SKILL.md", PDF);
    skills_fixture.user_skill("mine", &skill("Mine."));
    let see = async |tool: &str, arguments: Value| {
        let (output, witness) = skills_fixture.tool_fixture.witnessed(tool, arguments).await;
        assert!(!output.is_error, "{}", text(&output));
        let snapshot = witness.snapshot();
        snapshot.holds().await.unwrap();
        snapshot
    };
    let view = json!({ "name": "pdf" });
    // Each change is seen by whoever looked at what changed.
    let (listed, viewed) = (
        see("skills_list", json!({})).await,
        see("skill_view", view.clone()).await,
    );
    skills_fixture
        .tool_fixture
        .write("skills/pdf/SKILL.md", format!("{PDF}More.\n"));
    assert!(listed.holds().await.is_err() && viewed.holds().await.is_err());
    let (listed, viewed) = (
        see("skills_list", json!({})).await,
        see("skill_view", view.clone()).await,
    );
    skills_fixture
        .tool_fixture
        .write("skills/pdf/new.md", "new");
    assert!(listed.holds().await.is_ok() && viewed.holds().await.is_err());
    let listed = see("skills_list", json!({})).await;
    skills_fixture.user_skill("more", &skill("More."));
    assert!(listed.holds().await.is_err());
    // One that takes precedence appears.
    let viewed = see("skill_view", view).await;
    skills_fixture
        .tool_fixture
        .write(".cachalot/skills/pdf/SKILL.md", PDF);
    assert!(viewed.holds().await.is_err());
}

#[tokio::test]
async fn skills_are_created_changed_and_deleted() {
    let skills_fixture = SkillsFixture::new();
    let done = skills_fixture
        .manage(json!({ "action": "create", "name": "deploy", "description": "How: to \"deploy\".", "content": "# Steps\n1. push" }))
        .await;
    assert_eq!(
        done,
        "Created the skill `deploy` in .cachalot/skills/deploy."
    );
    assert_eq!(
        skills_fixture.list().await,
        "- deploy (workspace): How: to \"deploy\"."
    );
    let file = ".cachalot/skills/deploy/SKILL.md";
    assert!(
        skills_fixture
            .tool_fixture
            .read(file)
            .ends_with("---\n\n# Steps\n1. push\n")
    );
    skills_fixture.manage(json!({ "action": "patch", "name": "deploy", "old_text": "1. push", "new_text": "1. pull" })).await;
    assert!(skills_fixture.tool_fixture.read(file).contains("1. pull"));
    skills_fixture
        .manage(json!({ "action": "edit", "name": "deploy", "content": PDF }))
        .await;
    assert_eq!(skills_fixture.tool_fixture.read(file), PDF);
    skills_fixture.manage(json!({ "action": "write_file", "name": "deploy", "file": "scripts/a.sh", "content": "echo" })).await;
    assert_eq!(
        skills_fixture
            .tool_fixture
            .read(".cachalot/skills/deploy/scripts/a.sh"),
        "echo"
    );
    skills_fixture
        .manage(json!({ "action": "remove_file", "name": "deploy", "file": "scripts/a.sh" }))
        .await;
    assert!(
        !skills_fixture
            .tool_fixture
            .is_there(".cachalot/skills/deploy/scripts/a.sh")
    );
    let left: Vec<_> = skills_fixture
        .tool_fixture
        .tree()
        .into_keys()
        .filter(|path| path.to_string_lossy().contains(".new"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    skills_fixture
        .manage(json!({ "action": "delete", "name": "deploy" }))
        .await;
    assert!(
        !skills_fixture
            .tool_fixture
            .is_there(".cachalot/skills/deploy")
    );
    assert_eq!(skills_fixture.list().await, "There are no skills yet.");
}

#[tokio::test]
async fn user_skills_are_created_in_the_data_directory() {
    let skills_fixture = SkillsFixture::new();
    skills_fixture
        .manage(json!({ "action": "create", "name": "mine", "location": "user", "description": "Mine.", "content": "x" }))
        .await;
    assert!(
        skills_fixture
            .data
            .path()
            .join("skills/mine/SKILL.md")
            .is_file()
    );
    assert_eq!(skills_fixture.list().await, "- mine (user): Mine.");
    // What is changed is where it was found.
    skills_fixture
        .manage(json!({ "action": "write_file", "name": "mine", "file": "a.md", "content": "a" }))
        .await;
    assert!(
        skills_fixture
            .data
            .path()
            .join("skills/mine/a.md")
            .is_file()
    );
    let alone = ToolFixture::with(skills(None));
    let arguments = json!({ "action": "create", "name": "x", "location": "user", "description": "d", "content": "c" });
    let shown = alone.fails("skill_manage", arguments).await;
    assert!(shown.contains("location"), "{shown}");
}

#[tokio::test]
async fn invalid_skill_arguments_are_refused() {
    let skills_fixture = SkillsFixture::new();
    skills_fixture
        .tool_fixture
        .write("skills/pdf/SKILL.md", PDF);
    let create = |name: &str, description: &str, content: &str| json!({ "action": "create", "name": name, "description": description, "content": content });
    let pdf = |action: &str, more: Value| {
        let mut arguments = object(more);
        arguments.insert("action".to_owned(), action.into());
        arguments.insert("name".to_owned(), "pdf".into());
        Value::Object(arguments)
    };
    skills_fixture.manage(create("there", "d", "c")).await;
    for (arguments, why) in [
        (create("There", "d", "c"), "is no name for a skill"),
        (create("../out", "d", "c"), "is no name for a skill"),
        (create("there", "d", "c"), "is there already (workspace)"),
        (create("new", "  ", "c"), "`description` is empty"),
        (
            create("new", "d", "---\nname: x\n---\n"),
            "needs `description",
        ),
        (
            json!({ "action": "create", "name": "new", "content": "c" }),
            "`create` needs `description`",
        ),
        (
            json!({ "action": "edit", "name": "pdg", "content": PDF }),
            "did you mean `pdf`?",
        ),
        (pdf("edit", json!({ "content": "no head" })), "must begin"),
        (
            pdf("patch", json!({ "old_text": "zzz", "new_text": "" })),
            "does not occur",
        ),
        (
            pdf("patch", json!({ "old_text": "pdf", "new_text": "" })),
            "occurs 2 times",
        ),
        (
            pdf("patch", json!({ "old_text": "", "new_text": "" })),
            "`old_text` is empty",
        ),
        (
            pdf(
                "patch",
                json!({ "old_text": "description: Reads PDF files.\n", "new_text": "" }),
            ),
            "needs `description",
        ),
        (
            pdf("write_file", json!({ "file": "../../out", "content": "x" })),
            "without `..`",
        ),
        (
            pdf("write_file", json!({ "file": "SKILL.md", "content": "x" })),
            "must begin",
        ),
        (
            pdf("remove_file", json!({ "file": "SKILL.md" })),
            "cannot be without",
        ),
        (
            pdf("remove_file", json!({ "file": "none" })),
            "has no file `none`",
        ),
    ] {
        let before = skills_fixture.tool_fixture.tree();
        let shown = skills_fixture.refused(arguments.clone()).await;
        assert!(shown.contains(why), "{arguments}: {shown}");
        assert_eq!(skills_fixture.tool_fixture.tree(), before, "{arguments}");
    }
}

#[tokio::test]
async fn skill_paths_cannot_leave_their_folder() {
    let skills_fixture = SkillsFixture::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::create_dir(outside.path().join("evil")).unwrap();
    std::fs::write(outside.path().join("evil/SKILL.md"), PDF).unwrap();
    std::fs::create_dir_all(skills_fixture.tool_fixture.path("skills/pdf")).unwrap();
    skills_fixture
        .tool_fixture
        .write("skills/pdf/SKILL.md", PDF);
    symlink(
        outside.path(),
        skills_fixture.tool_fixture.path("skills/pdf/out"),
    )
    .unwrap();
    symlink(
        outside.path().join("evil"),
        skills_fixture.tool_fixture.path("skills/evil"),
    )
    .unwrap();
    let listed = skills_fixture.list().await;
    assert!(
        listed.starts_with("- pdf (workspace): Reads PDF files.\n[")
            && listed.contains("outside the workspace"),
        "{listed}"
    );
    for arguments in [
        json!({ "action": "write_file", "name": "pdf", "file": "out/new", "content": "x" }),
        json!({ "action": "remove_file", "name": "pdf", "file": "out/evil/SKILL.md" }),
        json!({ "action": "delete", "name": "evil" }),
        json!({ "action": "edit", "name": "evil", "content": PDF }),
    ] {
        let shown = skills_fixture.refused(arguments).await;
        assert!(shown.contains("outside"), "{shown}");
    }
    assert!(outside.path().join("evil/SKILL.md").is_file());
    assert!(!outside.path().join("new").exists());
    // A link that stays inside is a skill, but is not deleted.
    skills_fixture
        .tool_fixture
        .write("elsewhere/SKILL.md", skill("Linked."));
    std::fs::remove_file(skills_fixture.tool_fixture.path("skills/evil")).unwrap();
    symlink(
        skills_fixture.tool_fixture.path("elsewhere"),
        skills_fixture.tool_fixture.path("skills/linked"),
    )
    .unwrap();
    assert!(
        skills_fixture
            .list()
            .await
            .contains("- linked (workspace): Linked.")
    );
    let shown = skills_fixture
        .refused(json!({ "action": "delete", "name": "linked" }))
        .await;
    assert!(shown.contains("through a symbolic link"), "{shown}");
    assert!(skills_fixture.tool_fixture.is_there("elsewhere/SKILL.md"));
}

#[tokio::test]
async fn a_secret_is_not_written() {
    let mut skills_fixture = SkillsFixture::new();
    let secret_set = SecretSet::with_key(DigestKey::new([3; 32]));
    secret_set.learn("swordfish");
    skills_fixture.tool_fixture.context.secret_set = Arc::new(secret_set);
    let shown = skills_fixture
        .refused(json!({ "action": "create", "name": "x", "description": "d", "content": "use swordfish" }))
        .await;
    assert!(
        shown.contains("holds a secret") && !shown.contains("swordfish"),
        "{shown}"
    );
    skills_fixture
        .tool_fixture
        .write("skills/known/SKILL.md", skill("Says swordfish."));
    assert!(!skills_fixture.list().await.contains("swordfish"));
}

#[test]
fn skill_readers_are_validated_and_skill_manage_declares_writes() {
    let skills_fixture = SkillsFixture::new();
    let metadata = |name: &str| {
        skills_fixture
            .tool_fixture
            .registry
            .tool(name)
            .unwrap()
            .metadata()
            .clone()
    };
    for reader in ["skills_list", "skill_view"] {
        assert!(metadata(reader).read_only, "{reader}");
        assert_eq!(metadata(reader).cache_class, CacheClass::Validated);
    }
    assert!(!metadata("skill_manage").read_only);
    let tool = skills_fixture
        .tool_fixture
        .registry
        .tool("skill_manage")
        .unwrap();
    let arguments = object(json!({ "action": "create", "name": "x" }));
    let EffectTargets::Known(writes) = tool
        .effects(&arguments, &skills_fixture.tool_fixture.context)
        .writes
    else {
        panic!("unknown");
    };
    for folder in [".cachalot/skills/x", "skills/x"] {
        assert!(
            writes.contains(&EffectTarget::Path(
                skills_fixture.tool_fixture.path(folder)
            )),
            "{writes:?}"
        );
    }
    assert!(
        writes.contains(&EffectTarget::Path(
            skills_fixture.data.path().join("skills/x")
        )),
        "{writes:?}"
    );
}
