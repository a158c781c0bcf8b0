//! What engine and worker say to each other: MessagePack, each message after its length.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::program::{Execution, Limits, Program};
use crate::verdict::{JudgeRequest, Judgement};

/// Changes with the meaning of any message. Engine and worker are one binary, unless somebody replaces it under a running engine.
pub(super) const VERSION: u32 = 1;
/// Longest message, bytes: a request's largest input and files, with room.
pub(super) const MESSAGE_MAX: usize = 1 << 30;

/// From the engine, which lends what it sends; the worker owns what it got.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Question<'a> {
    /// The first message: what to open.
    Hello {
        version: u32,
        image_dir: PathBuf,
        cache_dir: PathBuf,
    },
    Execute {
        program: Cow<'a, Program>,
        limits: Cow<'a, Limits>,
    },
    Judge(Cow<'a, JudgeRequest>),
}

/// From the worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// To `Hello`: the snapshot that was opened.
    Ready {
        version: u32,
        key: String,
    },
    /// To `Hello`: why not.
    Refused {
        version: u32,
        detail: String,
    },
    Execution(Box<Execution>),
    Judgement(Box<Judgement>),
}

/// A message as bytes, its length first.
pub(super) fn frame<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    rmp_serde::encode::write_named(&mut bytes, message).map_err(io::Error::other)?;
    let length = bytes.len() - 4;
    if length > MESSAGE_MAX {
        return Err(io::Error::other(format!("a message of {length} bytes is longer than {MESSAGE_MAX}")));
    }
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(bytes)
}

/// A message's length.
pub(super) fn length(header: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(header) as usize;
    if length > MESSAGE_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message claims {length} bytes")));
    }
    Ok(length)
}

/// The message in these bytes.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    rmp_serde::from_slice(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Reads one message; `None` at the end of the stream.
pub(super) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut header = [0; 4];
    if from.read(&mut header[..1])? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut header[1..])?;
    let mut bytes = Vec::new();
    let length = length(header)?;
    // Grows with what comes, not with what is claimed.
    if from.take(length as u64).read_to_end(&mut bytes)? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    parse(&bytes).map(Some)
}

/// Writes one message.
pub(super) fn send<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    to.write_all(&frame(message)?)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::File;
    use crate::verdict::{Isolation, TestCase, Tests, TextRule};

    #[test]
    fn requests_arrive_as_they_were_sent() {
        let file = File { path: "a".into(), bytes: vec![0xFF, 0, b'a'] };
        let all = [
            Tests::Files {
                stdin: String::new(),
                files: vec![file.clone()],
                expected: vec![file],
                rule: TextRule::Float { absolute: 0.1, relative: 1e-300 },
            },
            Tests::Call {
                entry_point: "f".into(),
                cases: vec![TestCase {
                    args: vec![
                        serde_json::json!({"$int": "1"}),
                        serde_json::json!(u64::MAX),
                        serde_json::json!([null, -1, 0.1]),
                    ],
                    ..TestCase::default()
                }],
                rule: Default::default(),
            },
        ];
        for tests in all {
            let request = JudgeRequest {
                code: "x\0é".into(),
                tests,
                isolation: Isolation::Shared,
                limits: Limits::default(),
                seed: u64::MAX,
            };
            let bytes = frame(&Question::Judge(Cow::Borrowed(&request))).unwrap();
            match receive(&mut bytes.as_slice()).unwrap() {
                Some(Question::Judge(got)) => assert_eq!(got.into_owned(), request),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn nonsense_is_an_error_and_an_end_is_an_end() {
        assert!(receive::<Question<'static>>(&mut [].as_slice()).unwrap().is_none());
        for bytes in
            [&b"\x01"[..], b"\xFF\xFF\xFF\xFFabc", b"\x05\0\0\0abc", b"\x03\0\0\0abc", b"hello, this is no message"]
        {
            assert!(receive::<Question<'static>>(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
    }
}
