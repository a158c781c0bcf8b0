//! One worker process, from the engine's side: every word to it and from it has a deadline.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::WorkerSpec;
use super::protocol::{Answer, Question, VERSION, frame, length, parse};

/// The longest a worker may take to map its snapshot.
const START: Duration = Duration::from_secs(120);
/// Bytes read from a pipe at once: what a pipe holds.
const READ: usize = 64 << 10;

/// Why a worker gave no answer. It is the host's failure, always.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorkerFailure {
    #[error("cannot start the sandbox worker {program}: {source}")]
    Start { program: String, source: io::Error },
    #[error("the sandbox worker did not open its image: {0}")]
    Refused(String),
    #[error("a sandbox worker died ({0})")]
    Died(String),
    #[error("a sandbox worker gave no answer within {} s and was killed", .0.as_secs())]
    Late(Duration),
    #[error("a sandbox worker sent what is no answer: {0}")]
    Garbled(String),
    #[error("no sandbox worker was free within {} s", .0.as_secs())]
    Busy(Duration),
}

/// A live worker. Dropping it kills it.
pub(super) struct Worker {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Worker {
    /// Starts a worker and waits until it has opened the snapshot `key`.
    pub(super) fn start(spec: &WorkerSpec, key: &str) -> Result<Self, WorkerFailure> {
        let failed = |source| WorkerFailure::Start { program: spec.program.display().to_string(), source };
        let mut child = Command::new(&spec.program)
            .args(&spec.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A group of its own: Ctrl-C at the terminal is the engine's to answer, which then closes the pipe.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(io::Error::other("it has no pipes")));
        };
        let mut worker = Self { child, input, output };
        for end in [worker.input.as_fd(), worker.output.as_fd()] {
            let flags = fcntl_getfl(end).map_err(|error| failed(error.into()))?;
            fcntl_setfl(end, flags | OFlags::NONBLOCK).map_err(|error| failed(error.into()))?;
        }
        let hello =
            Question::Hello { version: VERSION, image_dir: spec.image_dir.clone(), cache_dir: spec.cache_dir.clone() };
        match worker.ask(&hello, START)? {
            Answer::Ready { version: VERSION, key: opened } if opened == key => Ok(worker),
            Answer::Ready { version, key: opened } => Err(WorkerFailure::Refused(format!(
                "it speaks version {version} and has snapshot {opened}; wanted {VERSION} and {key}: was the program replaced?"
            ))),
            Answer::Refused { detail, .. } => Err(WorkerFailure::Refused(detail)),
            Answer::Execution(_) | Answer::Judgement(_) => Err(WorkerFailure::Garbled("an answer to nothing".into())),
        }
    }

    /// The process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process lives.
    pub(super) fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks, and waits for the answer. After an error the worker is of no use.
    pub(super) fn ask(&mut self, question: &Question<'_>, patience: Duration) -> Result<Answer, WorkerFailure> {
        let request = frame(question).map_err(|error| WorkerFailure::Garbled(error.to_string()))?;
        let bytes = match self.exchange(&request, patience) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(WorkerFailure::Late(patience)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(WorkerFailure::Garbled(error.to_string()));
            }
            Err(error) => return Err(WorkerFailure::Died(self.epitaph(&error))),
        };
        parse(&bytes).map_err(|error| WorkerFailure::Garbled(error.to_string()))
    }

    /// Writes a request and reads the answer, both as far as the pipes let it; `None` when the time is over.
    fn exchange(&mut self, request: &[u8], patience: Duration) -> io::Result<Option<Vec<u8>>> {
        let deadline = Instant::now() + patience;
        let (mut sent, mut got) = (0, Vec::new());
        let mut wanted = None;
        let mut chunk = vec![0; READ];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let mut ends = vec![PollFd::new(&self.output, PollFlags::IN)];
            if sent < request.len() {
                ends.push(PollFd::new(&self.input, PollFlags::OUT));
            }
            let timeout = Timespec { tv_sec: left.as_secs().min(3600) as i64, tv_nsec: left.subsec_nanos().into() };
            match poll(&mut ends, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let ready: Vec<_> = ends.iter().map(|end| !end.revents().is_empty()).collect();
            if ready.get(1).copied().unwrap_or(false) {
                match self.input.write(&request[sent..]) {
                    Ok(count) => sent += count,
                    Err(error) if soon_again(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            if ready[0] {
                match self.output.read(&mut chunk) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(count) => got.extend_from_slice(&chunk[..count]),
                    Err(error) if soon_again(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            if wanted.is_none()
                && let Some(header) = got.first_chunk()
            {
                wanted = Some(length(*header)?);
            }
            if let Some(wanted) = wanted {
                if got.len() > wanted + 4 {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "more than one answer to one question"));
                }
                if got.len() == wanted + 4 {
                    return Ok(Some(got.split_off(4)));
                }
            }
        }
    }

    /// What is known of a worker's end.
    fn epitaph(&mut self, error: &io::Error) -> String {
        let _ = self.child.kill();
        match self.child.wait() {
            Ok(status) => match (status.signal(), status.code()) {
                (Some(signal), _) => format!("signal {signal}"),
                (None, Some(code)) => format!("status {code}"),
                (None, None) => error.to_string(),
            },
            Err(_) => error.to_string(),
        }
    }
}

fn soon_again(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A killed process is gone at once, so that this wait is short: nothing is left behind as a zombie.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
