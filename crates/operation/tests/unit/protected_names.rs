//! Unit tests of `src/protected_names.rs`.

use super::*;

#[test]
fn files_are_protected_by_their_names_in_any_spelling() {
    for (path, name) in [
        (".git/config", ".git"),
        ("sub/.GIT/Hooks/pre-commit", ".git"),
        (".git", ".git"),
        (".git/modules/x/config", ".git"),
        (".git./config", ".git"),
        (".cachalot/agents/x.yaml", ".cachalot"),
        ("a/.mcp.json", ".mcp.json"),
        (".claude/settings.local.json", ".claude"),
        (".claude/hooks/x.sh", ".claude"),
        (".claude/skills/x/SKILL.md", ".claude"),
        (".gemini/settings.json", ".gemini"),
        (".codex/config.toml", ".codex"),
        ("etc/hooks.d/x.yaml", "hooks.d"),
        (".gi\u{fffc}/conf\u{fffc}", ".gitconfig"),
        (".g\u{fffc}t/hooks", ".git"),
        ("\u{fffc}/hooks/x", ".git"),
        (".\u{fffc}/config", ".gitconfig"),
        ("home/.gitconfig", ".gitconfig"),
        ("home/.config/git/config", ".config/git"),
        ("AGENTS.md", "agents.md"),
        ("packages/a/Claude.md", "claude.md"),
        ("CLAUDE.local.md", "claude.local.md"),
        ("packages/a/skills/x/SKILL.md", "skill.md"),
        ("AGENTS\u{fffc}", "agents.md"),
        ("docs/x/HEAD", "head"),
    ] {
        assert_eq!(
            protected_name(Path::new(path)).as_deref(),
            Some(name),
            "{path}"
        );
    }
    for path in [
        ".git/HEAD",
        ".gitignore",
        ".github/workflows/x.yml",
        "git/config",
        ".claude/agents/x.md",
        "docs/agents.md.txt",
        "src/skills/x.rs",
        "README.md",
        "src/hooks.rs",
        "src/\u{fffc}.rs",
        "\u{fffc}",
        "\u{fffc}/x",
        "HEAD/x",
    ] {
        assert_eq!(protected_name(Path::new(path)), None, "{path}");
    }
}
