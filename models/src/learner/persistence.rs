//! Saving a learner and putting it back.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use super::Learner;
use super::adamw::AdamW;
use super::kernels::Kernels;
use crate::checkpoint::{self, OPTIMIZER_FILE, failed};
use crate::config::DecoderConfig;
use crate::decoder::Decoder;
use crate::huggingface::HuggingFaceDir;
use crate::huggingface::safetensors::Shard;
use crate::load::NamedTensor;
use crate::train::TrainError;

const FIRST_MOMENT: &str = "first_moment";
const SECOND_MOMENT: &str = "second_moment";

impl<B: Kernels> Learner<B> {
    pub(super) fn write(&self, dir: &Path) -> Result<(), TrainError> {
        checkpoint::write_directory(dir, |dir| {
            checkpoint::write_config(dir, &self.decoder.config)?;
            if let Some(text) = &self.text {
                checkpoint::write_text(dir, text)?;
            }
            checkpoint::write_tensors(&dir.join("model.safetensors"), &self.decoder.to_named_tensors())?;
            checkpoint::write_tensors(&dir.join(OPTIMIZER_FILE), &self.moments(&dir.join(OPTIMIZER_FILE))?)?;
            checkpoint::write_steps(dir, self.optimizer.updates)
        })
    }

    fn moments(&self, path: &Path) -> Result<Vec<NamedTensor>, TrainError> {
        let optimizer = &self.optimizer;
        let mut all = Vec::with_capacity(2 * self.slots.len());
        for (kind, moments) in [(FIRST_MOMENT, &optimizer.first_moments), (SECOND_MOMENT, &optimizer.second_moments)] {
            for (slot, moment) in self.slots.iter().zip(moments) {
                let values = moment.clone().into_data().convert::<f32>().into_vec::<f32>();
                all.push(NamedTensor {
                    name: format!("{kind}.{}", slot.name),
                    shape: slot.dims.clone(),
                    values: values.map_err(|error| failed(path, format!("{error:?}")))?,
                });
            }
        }
        Ok(all)
    }

    /// Everything is read before anything is replaced.
    pub(super) fn read(&mut self, dir: &Path) -> Result<(), TrainError> {
        let updates = checkpoint::read_steps(dir)?;
        let mut files = HuggingFaceDir::open(dir).map_err(|error| failed(dir, error))?;
        self.check_shape(dir, files.config())?;
        let config = self.decoder.config.clone();
        let decoder = Decoder::from_source(config, &mut files, &self.device).map_err(|error| failed(dir, error))?;
        let mut shard = Shard::open(dir.join(OPTIMIZER_FILE)).map_err(|error| failed(dir, error))?;
        let mut moments = |kind: &str| -> Result<Vec<Tensor<B, 1>>, TrainError> {
            let read = self.slots.iter().map(|slot| {
                let name = format!("{kind}.{}", slot.name);
                let values = shard.tensor(&name, &slot.dims).map_err(|error| failed(dir, error))?;
                Ok(Tensor::from_data(TensorData::new(values, [slot.len()]), &self.device))
            });
            read.collect()
        };
        let (first_moments, second_moments) = (moments(FIRST_MOMENT)?, moments(SECOND_MOMENT)?);
        self.decoder = Arc::new(decoder);
        self.optimizer = AdamW { first_moments, second_moments, updates };
        Ok(())
    }

    /// A checkpoint of another policy is refused, not reinterpreted.
    fn check_shape(&self, dir: &Path, found: &DecoderConfig) -> Result<(), TrainError> {
        let own = &self.decoder.config;
        let comparable =
            DecoderConfig { bos_token_id: own.bos_token_id, eos_token_ids: own.eos_token_ids.clone(), ..found.clone() };
        if comparable == *own {
            return Ok(());
        }
        Err(failed(&dir.join("config.json"), format!("it describes another policy: {found:?} instead of {own:?}")))
    }
}
