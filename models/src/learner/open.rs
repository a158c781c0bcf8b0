//! From a loaded policy to a learner on the same device.

use std::sync::Arc;

use super::Learner;
use super::kernels::Kernels;
use crate::backend::Cpu;
use crate::decoder::Decoder;
use crate::device::Device;
use crate::policy::LoadedPolicy;
use crate::train::{OptimizerConfig, Train, TrainError};

impl LoadedPolicy {
    /// A learner that starts from the weights as loaded, on their device, and shares them until its first step.
    ///
    /// # Errors
    /// A value of `config` that cannot be meant, or weights of a device this binary has no learner for.
    pub fn learner(&self, config: OptimizerConfig) -> Result<Box<dyn Train>, TrainError> {
        config.validate()?;
        match self.device() {
            Device::Cpu => self.learner_on::<Cpu>(config, Default::default()),
            #[cfg(feature = "cuda")]
            Device::Cuda(ordinal) => {
                self.learner_on::<crate::backend::Cuda>(config, burn::backend::cuda::CudaDevice::new(ordinal))
            }
            #[cfg(not(feature = "cuda"))]
            other @ Device::Cuda(_) => Err(TrainError::Backend(format!("this binary has no learner for `{other}`"))),
        }
    }

    fn learner_on<B: Kernels>(&self, config: OptimizerConfig, device: B::Device) -> Result<Box<dyn Train>, TrainError> {
        let decoder: Arc<Decoder<B>> = self
            .weights()
            .downcast()
            .ok_or_else(|| TrainError::Backend("the weights belong to another device".into()))?;
        Ok(Box::new(Learner::new(decoder, config, device).with_text(self.text())))
    }
}
