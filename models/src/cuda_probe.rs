//! Is there a CUDA driver and a card? Asked before Burn is, which panics where there is none.

use std::ffi::{c_int, c_uint};

/// Names under which the driver's library is installed.
#[cfg(windows)]
const LIBRARIES: [&str; 1] = ["nvcuda.dll"];
#[cfg(not(windows))]
const LIBRARIES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// Loads the driver, initialises it and counts the cards.
///
/// # Errors
/// A phrase that says what is missing.
pub(crate) fn probe(ordinal: usize) -> Result<(), String> {
    // SAFETY: loading runs the library's initialisers; this is the system's own driver, which Burn would load next.
    let loaded = LIBRARIES.iter().find_map(|name| unsafe { libloading::Library::new(name) }.ok());
    let driver = loaded.ok_or_else(|| format!("the NVIDIA driver's library `{}` cannot be loaded", LIBRARIES[0]))?;
    let missing = |e: libloading::Error| format!("the NVIDIA driver's library is not usable: {e}");
    let mut cards: c_int = 0;
    // SAFETY: both signatures are those of the CUDA driver API (`CUresult cuInit(unsigned int)`,
    // `CUresult cuDeviceGetCount(int *)`), and `cards` outlives the call.
    let (initialised, counted) = unsafe {
        let init = driver.get::<unsafe extern "C" fn(c_uint) -> c_int>(b"cuInit\0").map_err(missing)?;
        let count = driver.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cuDeviceGetCount\0").map_err(missing)?;
        (init(0), count(&mut cards))
    };
    if initialised != 0 || counted != 0 {
        return Err(format!("the NVIDIA driver does not start (cuInit: {initialised}, cuDeviceGetCount: {counted})"));
    }
    match usize::try_from(cards) {
        Ok(cards) if ordinal < cards => Ok(()),
        _ => Err(format!("there are {cards} CUDA devices, numbered from 0")),
    }
}
