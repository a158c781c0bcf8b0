//! Where tensors live: chosen at run time, by name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A compute device, written `cpu` or `cuda:N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Device {
    /// The host's processors.
    #[default]
    Cpu,
    /// The CUDA device of this ordinal.
    Cuda(usize),
}

/// Why a device cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The name is not one of the known forms.
    #[error("unknown device `{0}`: write `cpu`, `cuda` or `cuda:N`")]
    Unknown(String),
    /// The binary was built without the feature.
    #[error("device `{0}` needs a binary built with `cargo build --release --features cuda`")]
    NotBuilt(Device),
    /// The driver or the card is missing.
    #[error("device `{device}` is not available: {reason}; use `cpu`, or install what is missing")]
    Unavailable {
        /// The device asked for.
        device: Device,
        /// What is missing, in words.
        reason: String,
    },
}

impl FromStr for Device {
    type Err = DeviceError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => name
                .strip_prefix("cuda:")
                .and_then(|ordinal| ordinal.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| DeviceError::Unknown(name.to_owned())),
        }
    }
}

impl TryFrom<String> for Device {
    type Error = DeviceError;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        name.parse()
    }
}

impl From<Device> for String {
    fn from(device: Device) -> Self {
        device.to_string()
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in ["cpu", "cuda:0", "cuda:7"] {
            assert_eq!(name.parse::<Device>().map(|d| d.to_string()), Ok(name.to_owned()));
        }
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        for bad in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "CPU"] {
            assert_eq!(bad.parse::<Device>(), Err(DeviceError::Unknown(bad.to_owned())));
        }
    }
}
