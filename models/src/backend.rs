//! The backends, named once. Nothing outside this crate sees them: callers choose a [`Device`] at run time.

use crate::device::{Device, DeviceError};

/// Tensors on the host's processors.
pub type Cpu = burn_flex::Flex;

/// Tensors on a CUDA card.
#[cfg(feature = "cuda")]
pub type Cuda = burn::backend::Cuda;

/// A device that was found to be there.
#[derive(Debug, Clone)]
pub(crate) enum OpenDevice {
    Cpu(burn_flex::FlexDevice),
    #[cfg(feature = "cuda")]
    Cuda(burn::backend::cuda::CudaDevice),
}

impl OpenDevice {
    /// Probes `device` before Burn touches it: Burn panics where a driver is missing.
    pub(crate) fn open(device: Device) -> Result<Self, DeviceError> {
        match device {
            Device::Cpu => Ok(Self::Cpu(burn_flex::FlexDevice)),
            #[cfg(not(feature = "cuda"))]
            Device::Cuda(_) => Err(DeviceError::NotBuilt(device)),
            #[cfg(feature = "cuda")]
            Device::Cuda(ordinal) => {
                crate::cuda_probe::probe(ordinal).map_err(|reason| DeviceError::Unavailable { device, reason })?;
                Ok(Self::Cuda(burn::backend::cuda::CudaDevice::new(ordinal)))
            }
        }
    }
}
