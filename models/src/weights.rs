//! The hand-over of weights from learner to generator.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A version of the policy's weights, shared by reference: cloning copies no tensor.
///
/// The tensors inside belong to one backend, so a generator accepts only weights of the device it was built for.
#[derive(Clone)]
pub struct Weights {
    version: u64,
    tensors: Arc<dyn Any + Send + Sync>,
}

impl Weights {
    /// Wraps a backend's tensors as version `version` (0 is the policy as loaded; each accepted step adds one).
    pub fn new(version: u64, tensors: Arc<dyn Any + Send + Sync>) -> Self {
        Self { version, tensors }
    }

    /// The number of accepted learner steps behind these weights.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The tensors, if they are of type `T`.
    pub fn downcast<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.tensors).downcast().ok()
    }
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Weights").field("version", &self.version).finish_non_exhaustive()
    }
}
