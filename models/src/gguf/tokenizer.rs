//! The byte-level BPE tokenizer and chat template inside a GGUF file.

use std::path::Path;

use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer};

use super::reader::{Header, Value};
use crate::config::DecoderConfig;
use crate::load::LoadError;
use crate::text::TextParts;

/// `tokenizer.ggml.token_type` of tokens that are matched whole in the text: control (3) and user-defined (4).
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

const KNOWN_SPLITS: &str = "gpt-2, smollm, llama-bpe, qwen2";
const LLAMA3_SPLIT: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2_SPLIT: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

pub(super) fn text_parts(path: &Path, header: &Header, config: &DecoderConfig) -> Result<TextParts, LoadError> {
    let tokenizer = tokenizer(header).map_err(|reason| LoadError::tokenizer(path, reason))?;
    let tokens = header.strings("tokenizer.ggml.tokens").map_err(|reason| LoadError::malformed(path, reason))?;
    let token = |id: Option<u32>| id.and_then(|id| tokens.get(id as usize)).cloned();
    let chat_template = match header.metadata.get("tokenizer.chat_template") {
        Some(Value::String(template)) => Some(template.clone()),
        _ => None,
    };
    Ok(TextParts {
        tokenizer,
        chat_template,
        bos_token: token(config.bos_token_id),
        eos_token: token(config.eos_token_ids.first().copied()),
        stop_ids: config.eos_token_ids.clone(),
    })
}

fn tokenizer(header: &Header) -> Result<Tokenizer, String> {
    let model = header.string("tokenizer.ggml.model")?;
    if model != "gpt2" {
        return Err(format!("tokenizer.ggml.model `{model}` is not supported; known: gpt2 (byte-level BPE)"));
    }
    let tokens = header.strings("tokenizer.ggml.tokens")?;
    let pre = match header.metadata.get("tokenizer.ggml.pre") {
        Some(Value::String(pre)) => pre.as_str(),
        _ => "gpt-2",
    };
    let merges = header
        .strings("tokenizer.ggml.merges")?
        .iter()
        .map(|merge| match merge.split_once(' ') {
            Some((left, right)) => Ok((left.to_owned(), right.to_owned())),
            None => Err(format!("merge `{merge}` is not two tokens")),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let vocabulary: Vocab = tokens.iter().enumerate().map(|(id, token)| (token.clone(), id as u32)).collect();
    if vocabulary.len() != tokens.len() {
        return Err("a token occurs twice in tokenizer.ggml.tokens".into());
    }
    let bpe = BPE::builder()
        .vocab_and_merges(vocabulary, merges)
        .ignore_merges(pre == "llama-bpe")
        .build()
        .map_err(|e| e.to_string())?;
    let mut tokenizer = Tokenizer::new(bpe);
    tokenizer.with_pre_tokenizer(Some(pre_tokenizer(pre)?));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    let (special, ordinary) = whole_tokens(header, tokens)?;
    tokenizer.add_special_tokens(&special);
    tokenizer.add_tokens(&ordinary);
    Ok(tokenizer)
}

/// Tokens that are matched whole: (hidden when decoding without special tokens, always shown).
fn whole_tokens(header: &Header, tokens: &[String]) -> Result<(Vec<AddedToken>, Vec<AddedToken>), String> {
    let types = match header.metadata.get("tokenizer.ggml.token_type") {
        Some(Value::Numbers { kind: 4 | 5, raw }) => raw.chunks_exact(4),
        _ => return Err("metadata key `tokenizer.ggml.token_type` is missing or not an array of integers".into()),
    };
    if types.len() != tokens.len() {
        return Err(format!("{} token types for {} tokens", types.len(), tokens.len()));
    }
    let (mut special, mut ordinary) = (Vec::new(), Vec::new());
    for (token, kind) in tokens.iter().zip(types) {
        match i32::from_le_bytes([kind[0], kind[1], kind[2], kind[3]]) {
            CONTROL => special.push(AddedToken::from(token.clone(), true).normalized(false)),
            USER_DEFINED => ordinary.push(AddedToken::from(token.clone(), false).normalized(false)),
            _ => {}
        }
    }
    Ok((special, ordinary))
}

/// How text is cut before merging, by llama.cpp's name for it.
fn pre_tokenizer(name: &str) -> Result<PreTokenizerWrapper, String> {
    let steps: Vec<PreTokenizerWrapper> = match name {
        "gpt-2" | "gpt2" | "default" => vec![ByteLevel::new(false, true, true).into()],
        // Digits one by one, then GPT-2's split.
        "smollm" => vec![Digits::new(true).into(), ByteLevel::new(false, true, true).into()],
        "llama-bpe" | "llama3" | "llama-v3" => vec![split(LLAMA3_SPLIT)?, ByteLevel::new(false, true, false).into()],
        "qwen2" => vec![split(QWEN2_SPLIT)?, ByteLevel::new(false, true, false).into()],
        _ => return Err(format!("tokenizer.ggml.pre `{name}` is not supported; known: {KNOWN_SPLITS}")),
    };
    Ok(Sequence::new(steps).into())
}

fn split(pattern: &str) -> Result<PreTokenizerWrapper, String> {
    let pattern = SplitPattern::Regex(pattern.to_owned());
    let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map_err(|e| e.to_string())?;
    Ok(split.into())
}
