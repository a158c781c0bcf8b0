//! One program in one fresh instance, its output whole.

use crate::data::{Int, Value, decode, encode};
use crate::engine::Engine;
use crate::guest::{Guest, TurnEnd};
use crate::program::{End, Execution, Limits, Program};

/// Runs a program. The streams are whole, up to [`Limits::output_bytes`]: whoever hands them on keeps what they may.
pub(crate) fn run_program(engine: &Engine, program: &Program, limits: &Limits) -> Execution {
    if program.stdin.len() > limits.stdin_bytes {
        let (given, most) = (program.stdin.len(), limits.stdin_bytes);
        return Execution::refused(format!("standard input has {given} bytes, `stdin_bytes` allows {most}"));
    }
    let mut guest = match Guest::new(engine, limits, program.seed) {
        Ok(guest) => guest,
        Err(error) => return Execution::refused(format!("no instance: {error:#}")),
    };
    if let Err(refused) = guest.workspace().put(&program.files) {
        return Execution::refused(refused);
    }
    guest.set_stdin(program.stdin.clone());
    let job = Value::Tuple(vec![
        Value::str("program"),
        Value::Int(Int::from(i128::from(program.seed))),
        Value::str(&String::from_utf8_lossy(&program.source)),
        Value::Tuple(program.arguments.iter().map(|argument| Value::str(argument)).collect()),
    ]);
    let ended = guest.turn(encode(&job));
    let (mut end, exit, mut detail) = ending(ended, guest.memory_denied());
    if end == End::Exception && guest.workspace().exceeded {
        end = End::WorkspaceLimit;
    }
    let files = match guest.workspace().collect(&program.collect, limits.result_bytes) {
        Ok(files) => files,
        Err(refused) if matches!(end, End::Exited | End::Exception) => {
            (end, detail) = (End::WorkspaceLimit, refused);
            Vec::new()
        }
        Err(_) => Vec::new(),
    };
    let (stdout, stderr) = guest.take_output();
    Execution {
        end,
        exit,
        stdout,
        stderr,
        files,
        fuel_used: guest.fuel_used(),
        start_us: guest.start_us(),
        wall_us: u64::try_from(guest.wall().as_micros()).unwrap_or(u64::MAX),
        peak_memory_bytes: guest.peak_memory_bytes(),
        detail,
    }
}

/// The outcome of a program's one turn: how it ended, its exit status, what there is to say.
fn ending(ended: TurnEnd, memory_denied: bool) -> (End, Option<i32>, String) {
    let reply = match ended {
        TurnEnd::Returned(reply) => reply,
        TurnEnd::Exit(code) => return (End::Exited, Some(code), String::new()),
        TurnEnd::CalleeEnded => return (End::HostError, None, "a program called nobody".into()),
        TurnEnd::Ended(end, detail) => return (end, None, detail),
    };
    let reply = reply.and_then(|frame| decode(&frame).ok());
    let parts = match &reply {
        Some(Value::Tuple(parts)) => parts.as_slice(),
        _ => &[],
    };
    let kind = parts.first().map(Value::to_text).unwrap_or_default();
    match (kind.as_str(), parts) {
        ("end", _) => (End::Exited, Some(0), String::new()),
        ("exit", [_, Value::Int(code)]) => {
            let code = code.to_i128().and_then(|code| i32::try_from(code).ok());
            (End::Exited, code, String::new())
        }
        ("raised", [_, class, _, line, _]) => {
            let end = if memory_denied && class.to_text() == "MemoryError" { End::OutOfMemory } else { End::Exception };
            (end, Some(1), line.to_text())
        }
        _ => (End::Exception, None, "the program broke its own interpreter".into()),
    }
}

/// What a result keeps of a stream: all of it, or its head and its tail and how much lay between.
pub(crate) fn kept(bytes: Vec<u8>, most: usize) -> Vec<u8> {
    if bytes.len() <= most {
        return bytes;
    }
    let (head, tail) = (most - most / 2, most / 2);
    let marker = format!("\n… {} bytes cut …\n", bytes.len() - head - tail);
    [&bytes[..head], marker.as_bytes(), &bytes[bytes.len() - tail..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_tail_are_kept() {
        assert_eq!(kept(b"abc".to_vec(), 3), b"abc");
        assert_eq!(kept(b"abcdefg".to_vec(), 3), "ab\n… 4 bytes cut …\ng".as_bytes());
        assert_eq!(kept(b"ab".to_vec(), 1), "a\n… 1 bytes cut …\n".as_bytes());
    }
}
