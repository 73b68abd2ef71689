//! A source of `rag`: the documents, and how they are found.

use cachalot_core::Problem;
use cachalot_core::config::{
    Custom, Located, Parameter, ParameterKind as Kind, Settings, Table, Values, no_effect,
};
use cachalot_core::tree::Node;
use serde_json::{Value, json};

use super::chunks::Chunking;
use super::words::WordRanking;

/// The types of strategies.
const EMBEDDINGS: &str = "chunked-embeddings";
const WORDS: &str = "bm25";

/// A source of documents that an agent can search.
#[derive(Debug, Clone, PartialEq)]
pub struct RagSettings {
    /// The name of the tool that searches.
    pub name: String,
    /// The content of the documents, for the model.
    pub description: String,
    /// Files, folders and patterns of files, relative to the agent file.
    pub docs: Vec<String>,
    /// The search by vectors.
    pub embeddings: Option<EmbeddingSearch>,
    /// The search by words.
    pub words: Option<WordSearch>,
    /// The combination of both.
    pub fusion: RankFusion,
    /// The maximum number of chunks in a result.
    pub limit: usize,
}

// No number is NaN.
impl Eq for RagSettings {}

/// A source of documents that an agent can search.
#[derive(Debug, Settings)]
#[settings(name = "a source of `rag`", also = SOURCE_OF_OTHERS, check = check)]
struct RagSource {
    /// The tool that searches: `name`, `description`.
    #[setting(default)]
    tool: RagToolKeys,
    /// The content of the documents, for the model.
    description: Option<String>,
    /// Files, folders and patterns of files, relative to the agent file.
    docs: Vec<String>,
    /// The strategies of the search: one of the type `chunked-embeddings` or `bm25`, or one of each.
    #[setting(kind = Kind::Custom(&STRATEGIES), with = strategies, required)]
    strategies: Option<Strategies>,
    /// The results: `limit`, and `fusion` of two strategies.
    #[setting(default)]
    results: RagResults,
}

/// The keys of a source.
pub const RAG_SOURCE: &Table = RagSource::TABLE;

impl RagSettings {
    /// Reads the source with this key under `rag`.
    pub fn read(name: &str, node: &Node, problems: &mut Vec<Problem>) -> Option<Self> {
        let RagSource {
            tool,
            description,
            mut docs,
            strategies,
            results,
        } = RagSource::read(node, problems)?;
        let Strategies { embeddings, words } = strategies?;
        docs.extend(embeddings.iter().flat_map(|search| search.docs.clone()));
        docs.extend(words.iter().flat_map(|search| search.docs.clone()));
        let limits = embeddings.iter().map(|search| search.limit);
        let limit = limits
            .chain(words.iter().map(|search| search.limit))
            .max()?;
        let description = tool.description.or(description);
        Some(Self {
            name: tool.name.unwrap_or_else(|| name.to_owned()),
            description: description
                .unwrap_or_else(|| format!("Searches the documents of {name}.")),
            docs,
            limit: results.limit.unwrap_or(limit),
            embeddings,
            words,
            fusion: results.fusion,
        })
    }
}

/// The tool that searches the documents of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Settings)]
#[settings(name = "`tool` of a source of `rag`", also = TOOL_OF_OTHERS)]
struct RagToolKeys {
    /// The name of the tool; that of the source by default.
    name: Option<String>,
    /// The content of the documents, for the model.
    description: Option<String>,
}

/// The strategies of a source.
#[derive(Debug, Default)]
struct Strategies {
    embeddings: Option<EmbeddingSearch>,
    words: Option<WordSearch>,
}

/// The results of a search.
#[derive(Debug, Default, Settings)]
#[settings(name = "`results` of a source of `rag`", also = RESULTS_OF_OTHERS)]
struct RagResults {
    /// The maximum number of chunks in a result; that of the strategies by default.
    #[setting(range = 1..=100)]
    limit: Option<usize>,
    /// The combination of two strategies.
    #[setting(default)]
    fusion: RankFusion,
}

/// The combination of the results of two strategies by their ranks.
#[derive(Debug, Clone, PartialEq, Settings)]
#[settings(name = "`fusion`", default)]
pub struct RankFusion {
    /// `rrf`: the sum of the inverse ranks.
    #[setting(key = "strategy", kind = Kind::Word(&["rrf"]))]
    _strategy: Option<String>,
    /// The number that is added to a rank.
    #[setting(range = 1.0..=10_000.0, default = 60.0)]
    pub k: f64,
}

/// Search by the words of chunks.
#[derive(Debug, Clone, PartialEq, Settings)]
#[settings(name = "the strategy `bm25`", also = WORDS_OF_OTHERS)]
pub struct WordSearch {
    /// `bm25`.
    #[setting(key = "type")]
    _type: String,
    /// Further documents.
    pub docs: Vec<String>,
    /// The score that a chunk must have at least.
    #[setting(range = 0.0..=1_000_000.0, default = 0.0)]
    pub threshold: f64,
    /// The maximum number of chunks in a result.
    #[setting(range = 1..=100, default = 5)]
    pub limit: usize,
    /// The parameters of the scores.
    #[setting(flatten)]
    pub ranking: WordRanking,
    /// The division of documents: `size`, `overlap`, `respect_word_boundaries`.
    #[setting(default)]
    pub chunking: Chunking,
}

/// Search by the vectors of chunks.
#[derive(Debug, Clone, PartialEq, Settings)]
#[settings(name = "the strategy `chunked-embeddings`", also = EMBEDDINGS_OF_OTHERS)]
pub struct EmbeddingSearch {
    /// `chunked-embeddings`.
    #[setting(key = "type")]
    _type: String,
    /// The embedding model, as `provider/model` or a key of `models`.
    pub embedding_model: Located<String>,
    /// Further documents.
    pub docs: Vec<String>,
    /// The length of the vectors; another one is an error.
    #[setting(key = "vector_dimensions", range = 1..=100_000)]
    pub dimensions: Option<usize>,
    /// The similarity, from 0 to 1, that a chunk must have at least.
    #[setting(range = 0.0..=1.0, default = 0.5)]
    pub threshold: f64,
    /// The maximum number of chunks in a result.
    #[setting(range = 1..=100, default = 5)]
    pub limit: usize,
    /// The maximum number of chunks in a request to the embedding model.
    #[setting(key = "embedding_batch_size", alias = "batch_size", range = 1..=2048, default = 50)]
    pub batch_size: usize,
    /// The maximum number of such requests at a time.
    #[setting(range = 1..=32, default = 3)]
    pub max_embedding_concurrency: usize,
    /// The division of documents: `size`, `overlap`, `respect_word_boundaries`.
    #[setting(default)]
    pub chunking: Chunking,
    /// `cosine_similarity`.
    #[setting(key = "similarity_metric", kind = Kind::Word(&["cosine_similarity"]))]
    _metric: Option<String>,
}

impl EmbeddingSearch {
    /// Returns the settings that change results, for keys; the model is not among them.
    pub(super) fn identity(&self) -> Value {
        let Self {
            _type,
            embedding_model: _,
            docs: _,
            dimensions,
            threshold,
            limit,
            batch_size: _,
            max_embedding_concurrency: _,
            chunking,
            _metric,
        } = self;
        json!({
            "dimensions": dimensions,
            "threshold": threshold,
            "limit": limit,
            "chunking": chunking.identity(),
        })
    }
}

impl WordSearch {
    /// Returns the settings that change results, for keys.
    pub(super) fn identity(&self) -> Value {
        let Self {
            _type,
            docs: _,
            threshold,
            limit,
            ranking: WordRanking { k1, b },
            chunking,
        } = self;
        json!({
            "threshold": threshold,
            "limit": limit,
            "k1": k1,
            "b": b,
            "chunking": chunking.identity(),
        })
    }
}

#[rustfmt::skip]
const SOURCE_OF_OTHERS: &[Parameter] = &[
    no_effect("respect_vcs", "files that `.gitignore` names are left out; name them in `docs`"),
];

#[rustfmt::skip]
const TOOL_OF_OTHERS: &[Parameter] = &[
    no_effect("instruction", "write it into the `instruction` of the agents"),
];

#[rustfmt::skip]
const RESULTS_OF_OTHERS: &[Parameter] = &[
    no_effect("deduplicate", "each chunk is in a result once"),
    no_effect("include_score", "the score of each chunk is in the result"),
    no_effect("return_full_content", "the agent reads whole documents with `read_file`"),
    no_effect("reranking", "chunks are in the order of their scores"),
    no_effect("prefetch", "vectors are read from the cache; `cacheToolResults` keeps the results of equal queries"),
    no_effect("topology_prior", "chunks are in the order of their scores"),
];

#[rustfmt::skip]
const WORDS_OF_OTHERS: &[Parameter] = &[
    no_effect("database", "the words of the documents are counted in each search"),
];

#[rustfmt::skip]
const EMBEDDINGS_OF_OTHERS: &[Parameter] = &[
    no_effect("database", "vectors are kept in Cachalot's own store: `cachalot cache stats` shows where"),
    no_effect("max_indexing_concurrency", "`max_embedding_concurrency` limits the requests"),
];

static STRATEGIES: Custom = Custom {
    schema: Some(|| {
        let tables = [EmbeddingSearch::TABLE, WordSearch::TABLE];
        json!({ "type": "array", "items": { "anyOf": tables.map(|table| table.schema(true)) } })
    }),
    check: |entry, problems| match entry.value.as_list() {
        Some([]) | None => problems.push(entry.value.wrong_type(
            "`strategies`",
            "a list with a strategy of the type `chunked-embeddings` or `bm25`",
        )),
        Some(strategies) => check_strategies(strategies, problems),
    },
};

fn check_strategies(strategies: &[Node], problems: &mut Vec<Problem>) {
    let mut types = Vec::new();
    for strategy in strategies {
        let unsupported = |message: String, help: &str| {
            let problem = Problem::new("unsupported-strategy", message);
            problem.at(&strategy.head()).help(help)
        };
        let kind = strategy.get("type").and_then(Node::as_text);
        let table = match kind {
            None | Some(EMBEDDINGS) => EmbeddingSearch::TABLE,
            Some(WORDS) => WordSearch::TABLE,
            Some(other) => {
                let help = match other {
                    "semantic-embeddings" => {
                        "write `type: chunked-embeddings`, which embeds the text itself and not a summary by a model"
                    }
                    _ => "write `type: chunked-embeddings` or `type: bm25`",
                };
                let message = format!("the strategy `{other}` of `rag` is not supported");
                problems.push(unsupported(message, help));
                continue;
            }
        };
        table.read(strategy, problems);
        if types.contains(&kind) {
            let message = "a source of `rag` has two strategies of one type".to_owned();
            problems.push(unsupported(
                message,
                "leave one of them out, or write a source for each",
            ));
        }
        types.push(kind);
    }
}

fn strategies(node: &Node) -> Option<Strategies> {
    let mut strategies = Strategies::default();
    for strategy in node.as_list()? {
        // Their problems were reported by the check.
        let mut problems = Vec::new();
        if strategy.get("type").and_then(Node::as_text) == Some(WORDS) {
            let values = WordSearch::TABLE.values(strategy)?;
            strategies.words = Some(WordSearch::from_values(values, &mut problems)?);
        } else {
            let values = EmbeddingSearch::TABLE.values(strategy)?;
            strategies.embeddings = Some(EmbeddingSearch::from_values(values, &mut problems)?);
        }
    }
    Some(strategies)
}

fn check(settings: &RagSource, values: Values<'_>, problems: &mut Vec<Problem>) {
    let Some(Strategies { embeddings, words }) = &settings.strategies else {
        return;
    };
    let of_embeddings = embeddings
        .iter()
        .map(|search| (&search.docs, &search.chunking));
    let of_words = words.iter().map(|search| (&search.docs, &search.chunking));
    let all: Vec<_> = of_embeddings.chain(of_words).collect();
    if settings.docs.is_empty() && all.iter().all(|(docs, _)| docs.is_empty()) {
        let problem = Problem::new("missing-key", "a source of `rag` needs `docs`");
        let problem = problem.at(&values.mapping().head());
        problems.push(problem.help("list the documents: `docs: [./docs, ./guide.md]`"));
    }
    for (_, Chunking { size, overlap, .. }) in all {
        if overlap >= size {
            let message =
                format!("`overlap` must be less than `size`, but they are {overlap} and {size}");
            let problem = Problem::new("out-of-range", message).at(&values.place("strategies"));
            problems.push(problem.help("write a smaller `overlap`"));
        }
    }
}
