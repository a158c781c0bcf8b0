//! The building blocks for the CPU backend.

use burn_flex::Flex;

use super::Kernels;

impl Kernels for Flex {}
