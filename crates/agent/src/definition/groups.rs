//! Reusable parts of an agent file, as docker-agent writes them: `toolsets`, `commands` and `skills` at the top
//! level, which agents name in `use_toolsets`, `use_commands` and `use_skills`.

use cachalot_core::Problem;
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{MapEntry, Node, NodeKind};
use cachalot_mcp::settings::SOURCE;

/// The keys of an agent that name parts of a group, and the key of the group.
const REFERENCES: [(&str, &str); 3] = [
    ("use_toolsets", "toolsets"),
    ("use_commands", "commands"),
    ("use_skills", "skills"),
];

/// The spellings of `readonly` in toolsets.
const READ_ONLY: [&str; 3] = ["readonly", "read_only", "readOnly"];

/// The reusable parts of an agent file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Groups<'a> {
    root: &'a Node,
}

impl<'a> Groups<'a> {
    /// Returns the reusable parts of a file. `root` is the tree of the file.
    pub(super) fn from_root(root: &'a Node) -> Self {
        Self { root }
    }

    /// Returns all toolsets of an agent as one list: its own, those that it uses, and one for its `skills`.
    /// `None` if it has none. With `readonly`, all of them are read-only.
    pub(super) fn toolsets(&self, agent: &Node) -> Option<Node> {
        let own = agent.get("toolsets").filter(|own| !own.is_null());
        if own.is_some_and(|own| own.as_list().is_none()) {
            // Its reader reports the type.
            return own.cloned();
        }
        let mut items: Vec<Node> = own.and_then(Node::as_list).unwrap_or_default().to_vec();
        items.extend(self.used(agent, "use_toolsets").cloned());
        items.extend(self.skills(agent));
        items.extend(searches(agent));
        let mut items: Vec<Node> = items
            .into_iter()
            .map(|item| self.with_source(item))
            .collect();
        let is_read_only = agent.get("readonly").and_then(Node::as_boolean);
        if is_read_only == Some(true) {
            items = items.iter().map(read_only).collect();
        }
        let place = own.map_or_else(|| agent.place.clone(), |own| own.place.clone());
        (own.is_some() || !items.is_empty()).then_some(Node {
            place,
            kind: NodeKind::List(items),
        })
    }

    /// Returns the values of `commands` that apply to an agent: those that it uses, and then its own.
    pub(super) fn commands(&self, agent: &'a Node) -> Vec<&'a Node> {
        let own = agent.get("commands").filter(|own| !own.is_null());
        self.used(agent, "use_commands").chain(own).collect()
    }

    /// Returns a problem for each part that an agent uses and the file does not have.
    pub(super) fn check(&self, agent: &Node, problems: &mut Vec<Problem>) {
        for (reference, group) in REFERENCES {
            let group = self.root.get(group).and_then(Node::as_map);
            let known: Vec<&str> = group
                .unwrap_or_default()
                .iter()
                .map(|entry| entry.key.as_str())
                .collect();
            let named = agent.get(reference).and_then(Node::as_list);
            for item in named.unwrap_or_default() {
                let name = item.as_text().unwrap_or_default();
                if !known.contains(&name) {
                    let message = format!("`{reference}` names `{name}`, which is not there");
                    let help = if known.is_empty() {
                        format!("add it to `{}` at the top of the file", &reference[4..])
                    } else {
                        did_you_mean(name, &known)
                    };
                    let problem = Problem::new("unknown-group", message);
                    problems.push(problem.at(&item.place).help(help));
                }
            }
        }
    }

    /// Returns the parts of a group that an agent names.
    fn used(&self, agent: &Node, reference: &str) -> impl Iterator<Item = &'a Node> + use<'a> {
        let group = REFERENCES.iter().find(|(known, _)| *known == reference);
        let group = group.and_then(|(_, group)| self.root.get(group));
        let named = agent.get(reference).and_then(Node::as_list);
        let named: Vec<String> = named
            .unwrap_or_default()
            .iter()
            .filter_map(|name| name.as_text().map(str::to_owned))
            .collect();
        named
            .into_iter()
            .filter_map(move |name| group?.get(&name).filter(|part| !part.is_null()))
    }

    /// Returns a toolset with the source that it names, if it is a search in documents.
    fn with_source(&self, mut toolset: Node) -> Node {
        let text = |key| toolset.get(key).and_then(Node::as_text);
        let name = text("ref").filter(|_| text("type") == Some("rag"));
        let source = name
            .and_then(|name| self.root.get("rag")?.get(name))
            .cloned();
        if let (Some(value), NodeKind::Map(entries)) = (source, &mut toolset.kind) {
            entries.push(MapEntry {
                key: SOURCE.to_owned(),
                key_place: value.place.clone(),
                value,
            });
        }
        toolset
    }

    /// Returns the toolset for `skills` of an agent and for the skills that it uses.
    fn skills(&self, agent: &Node) -> Option<Node> {
        let own = agent.get("skills").filter(|own| !own.is_null());
        let all: Vec<&Node> = self.used(agent, "use_skills").chain(own).collect();
        let place = &all.first()?.place;
        let node = |kind| Node {
            place: place.clone(),
            kind,
        };
        let items: Vec<&Node> = all
            .iter()
            .filter_map(|skills| skills.as_list())
            .flatten()
            .collect();
        let has_all = all.iter().any(|skills| skills.as_boolean() == Some(true));
        let is_inline = |item: &&&Node| item.as_map().is_some();
        let (inline, named): (Vec<&Node>, Vec<&Node>) =
            items.iter().partition(|item| is_inline(item));
        let (sources, names): (Vec<&Node>, Vec<&Node>) = named
            .into_iter()
            .partition(|item| item.as_text().is_none_or(is_source));
        let is_local = has_all || !names.is_empty() || !sources.is_empty();
        if !is_local && inline.is_empty() {
            return None;
        }
        let entry = |key: &str, value| MapEntry {
            key: key.to_owned(),
            key_place: place.clone(),
            value: node(value),
        };
        let text = |text: &str| node(NodeKind::Text(text.to_owned()));
        let list = |items: Vec<&Node>| NodeKind::List(items.into_iter().cloned().collect());
        let views = vec![text("skills_list"), text("skill_view")];
        let mut entries = vec![
            entry("type", NodeKind::Text("skills".to_owned())),
            entry("tools", NodeKind::List(views)),
            entry("local", NodeKind::Boolean(is_local)),
            entry("sources", list(sources)),
            entry("inline", list(inline)),
        ];
        if !names.is_empty() && !has_all {
            entries.push(entry("names", list(names)));
        }
        Some(node(NodeKind::Map(entries)))
    }
}

/// Returns the toolsets for `rag` of an agent.
fn searches(agent: &Node) -> impl Iterator<Item = Node> {
    let names = agent.get("rag").and_then(Node::as_list).unwrap_or_default();
    names.iter().map(|name| {
        let entry = |key: &str, kind| MapEntry {
            key: key.to_owned(),
            key_place: name.place.clone(),
            value: Node {
                place: name.place.clone(),
                kind,
            },
        };
        let kind = entry("type", NodeKind::Text("rag".to_owned()));
        let entries = vec![kind, entry("ref", name.kind.clone())];
        Node {
            place: name.place.clone(),
            kind: NodeKind::Map(entries),
        }
    })
}

/// True for a source of skills in docker-agent: `local` or an address.
fn is_source(text: &str) -> bool {
    text == "local" || text.starts_with("http://") || text.starts_with("https://")
}

/// Returns a toolset with `readonly: true`.
fn read_only(toolset: &Node) -> Node {
    let Some(entries) = toolset.as_map() else {
        return toolset.clone();
    };
    let others = entries
        .iter()
        .filter(|entry| !READ_ONLY.contains(&entry.key.as_str()));
    let read_only = MapEntry {
        key: READ_ONLY[0].to_owned(),
        key_place: toolset.place.clone(),
        value: Node {
            place: toolset.place.clone(),
            kind: NodeKind::Boolean(true),
        },
    };
    Node {
        place: toolset.place.clone(),
        kind: NodeKind::Map(others.cloned().chain([read_only]).collect()),
    }
}
