//! Weights in safetensors: a header of JSON, then raw little-endian tensors (huggingface/safetensors, `README.md`).
//!
//! Tensors are read one by one, so a model never lies in memory twice.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::Metadata;

use super::read_json;
use crate::load::LoadError;

/// The files that hold a model's tensors.
#[derive(Debug)]
pub(crate) struct Shards {
    dir: PathBuf,
    files: Vec<Shard>,
}

#[derive(Debug)]
pub(crate) struct Shard {
    path: PathBuf,
    file: File,
    header: Metadata,
    data_start: u64,
}

impl Shards {
    /// Opens `model.safetensors`, or the shards that `model.safetensors.index.json` lists.
    pub(super) fn open(dir: &Path) -> Result<Self, LoadError> {
        let single = dir.join("model.safetensors");
        let index = dir.join("model.safetensors.index.json");
        let paths = if single.is_file() {
            vec![single]
        } else if index.is_file() {
            indexed_files(dir, &index)?
        } else {
            return Err(LoadError::NotAPolicy {
                path: dir.to_owned(),
                reason: "weights are missing: neither `model.safetensors` nor `model.safetensors.index.json` is there"
                    .into(),
            });
        };
        let files = paths.into_iter().map(Shard::open).collect::<Result<_, _>>()?;
        Ok(Self { dir: dir.to_owned(), files })
    }

    pub(super) fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        let shard = self.files.iter_mut().find(|shard| shard.header.info(name).is_some());
        let shard = shard.ok_or_else(|| LoadError::tensor(&self.dir, name, "is missing"))?;
        shard.tensor(name, shape)
    }
}

fn indexed_files(dir: &Path, index: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let json = read_json(index)?;
    let map = json["weight_map"].as_object();
    let map = map.ok_or_else(|| LoadError::malformed(index, "`weight_map` is missing"))?;
    let mut files = BTreeMap::new();
    for (tensor, file) in map {
        let plain = file.as_str().filter(|name| Path::new(name).file_name().is_some_and(|only| only == *name));
        let Some(name) = plain else {
            return Err(LoadError::malformed(index, format!("`{tensor}` is in {file}, which is not a file name")));
        };
        files.insert(name.to_owned(), dir.join(name));
    }
    Ok(files.into_values().collect())
}

impl Shard {
    pub(crate) fn open(path: PathBuf) -> Result<Self, LoadError> {
        let mut file = File::open(&path).map_err(|e| LoadError::io(&path, e))?;
        let length = file.metadata().map_err(|e| LoadError::io(&path, e))?.len();
        let mut size = [0; 8];
        file.read_exact(&mut size).map_err(|_| LoadError::malformed(&path, "it is shorter than its header"))?;
        let header_size = u64::from_le_bytes(size);
        if header_size > length.saturating_sub(8) {
            let reason = format!("its header claims {header_size} bytes of a file of {length}: it is truncated");
            return Err(LoadError::malformed(&path, reason));
        }
        let mut bytes = vec![0; header_size as usize];
        file.read_exact(&mut bytes).map_err(|e| LoadError::io(&path, e))?;
        let header: Metadata =
            serde_json::from_slice(&bytes).map_err(|e| LoadError::malformed(&path, e.to_string()))?;
        Ok(Self { path, file, header, data_start: 8 + header_size })
    }

    pub(crate) fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        let fail = |reason: String| LoadError::tensor(&self.path, name, reason);
        let info = self.header.info(name).ok_or_else(|| fail("is missing".into()))?;
        if info.shape != shape {
            return Err(fail(format!("has shape {:?}, but config.json asks for {shape:?}", info.shape)));
        }
        let (start, end) = info.data_offsets;
        let length = self.file.metadata().map_err(|e| LoadError::io(&self.path, e))?.len();
        if self.data_start.checked_add(end as u64).is_none_or(|end| end > length) {
            return Err(fail(format!("ends behind the end of the file ({length} bytes): it is truncated")));
        }
        let width = info.dtype.bitsize() / 8;
        let wanted = shape.iter().try_fold(width, |product, &size| product.checked_mul(size));
        if start > end || wanted != Some(end - start) {
            return Err(fail(format!("spans bytes {start} to {end}, which is not the size of its shape {shape:?}")));
        }
        let values: usize = info.shape.iter().product();
        if values.checked_mul(info.dtype.bitsize()) != (end - start).checked_mul(8) {
            return Err(fail(format!("has {} bytes for {values} values of {:?}", end - start, info.dtype)));
        }
        let mut raw = vec![0; end - start];
        self.file.seek(SeekFrom::Start(self.data_start + start as u64)).map_err(|e| LoadError::io(&self.path, e))?;
        self.file.read_exact(&mut raw).map_err(|e| LoadError::io(&self.path, e))?;
        match info.dtype {
            Dtype::F32 => Ok(raw.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()),
            Dtype::F16 => Ok(raw.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect()),
            Dtype::BF16 => Ok(raw.chunks_exact(2).map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32()).collect()),
            other => Err(fail(format!("is stored as {other:?}, which is not supported; known: F32, F16, BF16"))),
        }
    }
}
