//! Search in documents: the toolset `rag`.
//!
//! Documents are divided into chunks. A search by meaning compares the vectors of the chunks, which an embedding model
//! makes, with that of the query. The vectors are entries of the cache under the text and the model: a changed document
//! is embedded anew, and an unchanged one is never paid for twice. A search by words needs no model.

mod chunks;
mod search;
mod settings;
mod vectors;
mod words;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::config::{CallArguments, tool_schema};
use cachalot_core::text::truncate;
use cachalot_core::{EffectTargets, Effects};
use cachalot_operation::{
    CacheClass, Failure, OperationMetadata, ResourceAccess, ToolContext, ToolOutput, TypedTool,
    WithOriginal,
};
use serde::Deserialize;
use serde_json::{Value, json};

use self::chunks::Chunk;
use self::search::{Found, Part, by_vectors, by_words, fused};
use super::files::documents::{Document, DocumentPath, read_documents};

pub use self::chunks::Chunking;
pub use self::settings::{EmbeddingSearch, RAG_SOURCE, RagSettings, RankFusion, WordSearch};
pub use self::vectors::Embedder;
pub use self::words::WordRanking;

/// Maximum length of a result in characters.
const MAX_RESULT_CHARS: usize = 60_000;

/// The arguments of a search.
#[derive(Debug, CallArguments, Deserialize)]
pub struct RagArguments {
    /// A question, or words about what is looked for.
    query: String,
}

/// A search in the documents of a source.
pub struct RagTool {
    metadata: OperationMetadata,
    settings: RagSettings,
    documents: Vec<DocumentPath>,
    /// Present if the settings have a search by vectors.
    embedder: Option<Arc<Embedder>>,
}

impl RagTool {
    /// Creates the tool. Paths of documents begin in `directory`; a search by vectors needs `embedder`.
    #[must_use]
    pub fn new(settings: RagSettings, directory: PathBuf, embedder: Option<Embedder>) -> Self {
        let paths = settings.docs.iter();
        Self {
            metadata: OperationMetadata {
                read_only: true,
                exclusive: false,
                cache_class: CacheClass::Validated,
                ..OperationMetadata::with_side_effects(
                    settings.name.clone(),
                    settings.description.clone(),
                    tool_schema(RagArguments::PARAMETERS),
                )
            },
            documents: paths
                .map(|path| DocumentPath::new(&directory, path))
                .collect(),
            settings,
            embedder: embedder.map(Arc::new),
        }
    }

    /// Returns the resources of every call.
    fn access(&self) -> ResourceAccess {
        ResourceAccess {
            searches: self.documents.iter().map(DocumentPath::root).collect(),
            remote: self.embedder.is_some(),
            // The file names the model, and thereby the machine.
            hosts_listed: true,
            ..ResourceAccess::default()
        }
    }

    /// Returns the best chunks of the documents, best first.
    async fn search(
        &self,
        query: &str,
        documents: &[Document],
        session: Option<Arc<str>>,
    ) -> Result<Vec<Found>, String> {
        let mut results = Vec::new();
        if let (Some(search), Some(embedder)) = (&self.settings.embeddings, &self.embedder) {
            results.push(by_vectors(search, embedder, documents, query, session).await?);
        }
        if let Some(search) = &self.settings.words {
            results.push(by_words(search, documents, query).await?);
        }
        let mut found = match results.len() {
            1 => results.pop().unwrap_or_default(),
            _ => fused(results, self.settings.fusion.k),
        };
        found.truncate(self.settings.limit);
        Ok(found)
    }
}

#[async_trait]
impl TypedTool for RagTool {
    type Arguments = WithOriginal<RagArguments>;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, _: &Self::Arguments, context: &ToolContext) -> Effects {
        let mut targets = Vec::new();
        for document in &self.documents {
            match document.effects(context).reads {
                EffectTargets::Known(known) => targets.extend(known),
                EffectTargets::Unknown => {
                    return Effects {
                        reads: EffectTargets::Unknown,
                        writes: EffectTargets::NOTHING,
                    };
                }
            }
        }
        Effects::reading(targets)
    }

    fn resource_access(&self, _: &Self::Arguments) -> ResourceAccess {
        self.access()
    }

    /// The model, the documents and how they are divided, and the rules that exclude files.
    fn implicit_inputs(&self, context: &ToolContext) -> Result<Value, Failure> {
        let RagSettings {
            name: _,
            description: _,
            docs: _,
            embeddings,
            words,
            fusion,
            limit,
        } = &self.settings;
        let documents = self.documents.iter().map(DocumentPath::identity);
        Ok(json!({
            "model": self.embedder.as_ref().map(|embedder| embedder.model.identity()),
            "documents": documents.collect::<Vec<_>>(),
            "embeddings": embeddings.as_ref().map(EmbeddingSearch::identity),
            "words": words.as_ref().map(WordSearch::identity),
            "fusion": fusion.k,
            "limit": limit,
            "rules": context.rules.search_rules(&self.metadata.name),
        }))
    }

    async fn run(&self, arguments: Self::Arguments, context: &ToolContext) -> ToolOutput {
        let WithOriginal { typed, original } = arguments;
        let tool = &self.metadata.name;
        let read = read_documents(&self.documents, tool, &original, &self.access(), context).await;
        let (documents, mut notices) = match read {
            Ok(read) => (read.documents, read.notices),
            Err(refused) => return refused,
        };
        let (documents, secret): (Vec<Document>, Vec<Document>) = documents
            .into_iter()
            .partition(|document| !context.secret_set.occurs_in(document.text.as_bytes()));
        // They are not sent to the model.
        notices.extend(
            secret
                .iter()
                .map(|document| format!("left out, because it holds a secret: {}", document.name)),
        );
        let count = documents.len();
        let query = context.secret_set.redact(&typed.query).into_owned();
        let session = (!context.session.is_empty()).then(|| context.session.as_str().into());
        match self.search(&query, &documents, session).await {
            Ok(found) => ToolOutput::text(shown(&found, count, &notices)),
            Err(message) => ToolOutput::error(message),
        }
    }
}

/// Formats what was found, best match first.
fn shown(found: &[Found], documents: usize, notices: &[String]) -> String {
    let mut text = String::new();
    if found.is_empty() {
        text = format!("nothing in {documents} documents matches the query\n");
    }
    for Found { score, part } in found {
        let Part { document, chunk } = part;
        let Chunk {
            line,
            text: content,
        } = chunk;
        text += &format!(
            "--- {document}:{line} (score {score:.3})\n{}\n",
            content.trim_end()
        );
    }
    let mut text = truncate(&text, MAX_RESULT_CHARS).into_owned();
    for notice in notices {
        text += &format!("[{notice}]\n");
    }
    text
}
