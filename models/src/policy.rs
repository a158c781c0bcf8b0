//! A policy as loaded from disk: the crate's front door.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::backend::OpenDevice;
use crate::config::DecoderConfig;
use crate::decoder::Decoder;
use crate::device::Device;
use crate::generate::{Generate, GenerateError};
use crate::generator::{Generator, GeneratorOptions};
use crate::gguf::GgufFile;
use crate::huggingface::HuggingFaceDir;
use crate::learner::kernels::Kernels;
use crate::load::{LoadError, TensorSource};
use crate::score::score;
use crate::text::{PolicyText, TextParts};
use crate::weights::Weights;

/// A policy in memory: weights on one device, tokenizer and chat template.
#[derive(Debug)]
pub struct LoadedPolicy {
    name: String,
    device: Device,
    config: DecoderConfig,
    text: Arc<PolicyText>,
    engine: Box<dyn Engine>,
}

impl LoadedPolicy {
    /// Loads a GGUF file or a Hugging Face directory onto `device`.
    ///
    /// # Errors
    /// [`LoadError`] names the file and what is wrong: missing, truncated, of another architecture or shape; or the device
    /// is not available.
    pub fn load(path: &Path, device: Device) -> Result<Self, LoadError> {
        let open = OpenDevice::open(device)?;
        let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            let mut dir = HuggingFaceDir::open(path)?;
            let (config, parts) = (dir.config().clone(), dir.text_parts()?);
            return Self::build(path, stem(path), device, open, config, parts, &mut dir);
        }
        if !path.exists() {
            let reason = "there is no such file or directory".into();
            return Err(LoadError::NotAPolicy { path: path.to_owned(), reason });
        }
        let mut file = GgufFile::open(path)?;
        let name = file.name().map_or_else(|| stem(path), str::to_owned);
        let (config, parts) = (file.config().clone(), file.text_parts()?);
        Self::build(path, name, device, open, config, parts, &mut file)
    }

    /// Loads tokenizer and chat template alone, without the weights.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_text(path: &Path) -> Result<PolicyText, LoadError> {
        let parts = if path.is_dir() {
            HuggingFaceDir::open(path)?.text_parts()?
        } else {
            GgufFile::open(path)?.text_parts()?
        };
        PolicyText::new(parts).map_err(|reason| LoadError::tokenizer(path, reason))
    }

    fn build(
        path: &Path,
        name: String,
        device: Device,
        open: OpenDevice,
        config: DecoderConfig,
        parts: TextParts,
        source: &mut dyn TensorSource,
    ) -> Result<Self, LoadError> {
        let text = PolicyText::new(parts).map_err(|reason| LoadError::tokenizer(path, reason))?;
        let stop_ids: Arc<[u32]> = text.stop_ids().into();
        let engine: Box<dyn Engine> = match open {
            OpenDevice::Cpu(device) => {
                Box::new(BackendEngine::<crate::backend::Cpu>::load(config.clone(), source, device, stop_ids)?)
            }
            #[cfg(feature = "cuda")]
            OpenDevice::Cuda(device) => {
                Box::new(BackendEngine::<crate::backend::Cuda>::load(config.clone(), source, device, stop_ids)?)
            }
        };
        Ok(Self { name, device, config, text: Arc::new(text), engine })
    }

    /// The file's own name for the model, or the file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the weights are.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The decoder's shape.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    /// Tokens of prompt and completion together.
    pub fn context_length(&self) -> usize {
        self.config.max_position_embeddings
    }

    /// Tokenizer and chat template, shareable among threads.
    pub fn text(&self) -> Arc<PolicyText> {
        Arc::clone(&self.text)
    }

    /// The weights as loaded: version 0.
    pub fn weights(&self) -> Weights {
        self.engine.weights()
    }

    /// A generator that starts with the weights as loaded. Hand it newer ones with [`Generate::set_weights`].
    pub fn generator(&self, options: GeneratorOptions) -> Result<Box<dyn Generate>, GenerateError> {
        self.engine.generator(options)
    }

    /// Log-probabilities of `completion_ids` after `prompt_ids` under the raw softmax of the weights as loaded, by one
    /// forward pass.
    pub fn score(&self, prompt_ids: &[u32], completion_ids: &[u32]) -> Result<Vec<f32>, GenerateError> {
        self.engine.score(&self.weights(), prompt_ids, completion_ids)
    }

    /// The same under other weights of this policy.
    pub fn score_with(
        &self,
        weights: &Weights,
        prompt_ids: &[u32],
        completion_ids: &[u32],
    ) -> Result<Vec<f32>, GenerateError> {
        self.engine.score(weights, prompt_ids, completion_ids)
    }
}

/// What needs to know the backend; one implementation, behind an object so that callers never see a generic.
trait Engine: Send + Sync + fmt::Debug {
    fn weights(&self) -> Weights;
    fn generator(&self, options: GeneratorOptions) -> Result<Box<dyn Generate>, GenerateError>;
    fn score(&self, weights: &Weights, prompt: &[u32], completion: &[u32]) -> Result<Vec<f32>, GenerateError>;
}

struct BackendEngine<B: Kernels> {
    decoder: Arc<Decoder<B>>,
    device: B::Device,
    stop_ids: Arc<[u32]>,
}

impl<B: Kernels> BackendEngine<B> {
    fn load(
        config: DecoderConfig,
        source: &mut dyn TensorSource,
        device: B::Device,
        stop_ids: Arc<[u32]>,
    ) -> Result<Self, LoadError> {
        let decoder = Arc::new(Decoder::from_source(config, source, &device)?);
        Ok(Self { decoder, device, stop_ids })
    }
}

impl<B: Kernels> Engine for BackendEngine<B> {
    fn weights(&self) -> Weights {
        Weights::new(0, self.decoder.clone())
    }

    fn generator(&self, options: GeneratorOptions) -> Result<Box<dyn Generate>, GenerateError> {
        let stop_ids = Arc::clone(&self.stop_ids);
        Ok(Box::new(Generator::<B>::new(&self.weights(), stop_ids, options, self.device.clone())?))
    }

    fn score(&self, weights: &Weights, prompt: &[u32], completion: &[u32]) -> Result<Vec<f32>, GenerateError> {
        let decoder = weights
            .downcast::<Decoder<B>>()
            .ok_or_else(|| GenerateError::WrongWeights("they belong to another device".into()))?;
        score(&decoder, &self.device, weights.version(), prompt, completion)
    }
}

impl<B: Kernels> fmt::Debug for BackendEngine<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendEngine").field("device", &self.device).finish_non_exhaustive()
    }
}
