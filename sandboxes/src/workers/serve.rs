//! The worker's side.

use std::io;
use std::process;
use std::sync::mpsc;
use std::thread;

use super::protocol::{Answer, Question, VERSION, receive, send};
use crate::local::LocalSandbox;
use crate::sandbox::Sandbox as _;
use crate::snapshot::Snapshot;

/// Stack of the thread that answers: what it reads and writes nests as deep as programs and tests make it.
const STACK: usize = 64 << 20;

/// Answers the engine that started this process, over standard input and output, until it closes them.
///
/// Ends the process when the engine is gone, also in the middle of a run: nobody waits for its answer any more.
///
/// # Errors
/// Where the engine says what is no message, or cannot be answered.
pub fn serve_worker() -> io::Result<()> {
    let (sender, questions) = mpsc::sync_channel(1);
    thread::Builder::new().name("worker-pipe".into()).stack_size(STACK).spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            match receive::<Question<'static>>(&mut input) {
                Ok(Some(question)) => {
                    if sender.send(question).is_err() {
                        return;
                    }
                }
                Ok(None) => process::exit(0),
                Err(error) => {
                    tracing::error!(%error, "the engine sent what is no message");
                    process::exit(1)
                }
            }
        }
    })?;
    let answering = thread::Builder::new().name("worker".into()).stack_size(STACK).spawn(move || answer(&questions))?;
    answering.join().unwrap_or_else(|_| Err(io::Error::other("the worker panicked")))
}

fn answer(questions: &mpsc::Receiver<Question<'static>>) -> io::Result<()> {
    let mut output = io::stdout().lock();
    let mut sandbox = None;
    while let Ok(question) = questions.recv() {
        let answer = match (question, &sandbox) {
            (Question::Hello { version, .. }, _) if version != VERSION => Answer::Refused {
                version: VERSION,
                detail: format!("the engine speaks version {version}, this worker {VERSION}"),
            },
            (Question::Hello { image_dir, cache_dir, .. }, _) => {
                match Snapshot::open(&image_dir, &cache_dir, &|_| {}) {
                    Ok(snapshot) => {
                        let key = snapshot.key.clone();
                        sandbox = Some(LocalSandbox::new(snapshot));
                        Answer::Ready { version: VERSION, key }
                    }
                    Err(error) => Answer::Refused { version: VERSION, detail: error.to_string() },
                }
            }
            (Question::Execute { program, limits }, Some(sandbox)) => {
                Answer::Execution(Box::new(sandbox.execute(&program, &limits)))
            }
            (Question::Judge(request), Some(sandbox)) => Answer::Judgement(Box::new(sandbox.judge(&request))),
            (_, None) => Answer::Refused { version: VERSION, detail: "a question before `Hello`".into() },
        };
        send(&mut output, &answer)?;
    }
    Ok(())
}
