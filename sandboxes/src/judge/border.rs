//! The border between the judge and the player: who runs while the other waits.
//!
//! The judge's requests reach the player as turns of its instance. A player that was lent a callback may ask back in
//! the middle of one: its turn then runs on a thread of its own, which waits in the door while the judge works. Only one
//! of the two guests ever runs, so nothing depends on how threads are scheduled.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use super::lock;
use super::player::{Player, Reply};
use crate::data::encode;
use crate::guest::Answer;

/// What the thread of a player's turn says.
enum Said {
    /// The code under test asks back: a frame for the judge.
    Asked(Vec<u8>),
    /// The turn is over; `None` where the player answers no more.
    Over(Option<Vec<u8>>),
}

/// A turn of the player's that may ask back.
struct Running {
    answers: Sender<Vec<u8>>,
    said: Receiver<Said>,
    thread: JoinHandle<()>,
}

/// The host's part of the border.
pub(super) struct Border {
    player: Arc<Mutex<Player>>,
    running: Option<Running>,
    /// What the harness of the tests reported of its course, with the fuel the player had used by then.
    marks: Vec<(Vec<u8>, u64)>,
}

impl Border {
    /// The border in front of a player that has loaded its code.
    pub(super) fn new(player: &Arc<Mutex<Player>>) -> Self {
        Self { player: Arc::clone(player), running: None, marks: Vec::new() }
    }

    /// Answers one frame of the judge's. Its first byte says what it is: a re`q`uest, a request of a player that holds
    /// callbac`k`s, an `a`nswer to what the player asked, a `m`ark.
    pub(super) fn request(&mut self, frame: &[u8]) -> Answer {
        match (frame.split_first(), self.running.is_some()) {
            (Some((b'm', mark)), false) => {
                self.marks.push((mark.to_vec(), lock(&self.player).fuel_used()));
                Answer::Frame(Vec::new())
            }
            (Some((b'q' | b'k' | b'a', _)), true) => self.resume(frame),
            (Some((b'q', request)), false) => match turn(&mut lock(&self.player), request) {
                Some(answer) => Answer::Frame(answer),
                None => Answer::Ended,
            },
            (Some((b'k', request)), false) => self.start(request),
            _ => Answer::Ended,
        }
    }

    /// Starts a turn that may ask back.
    fn start(&mut self, request: &[u8]) -> Answer {
        let (answers, answered) = channel::<Vec<u8>>();
        let (saying, said) = channel();
        let (player, request) = (Arc::clone(&self.player), request.to_vec());
        let work = move || {
            let mut player = lock(&player);
            let asking = saying.clone();
            player.set_callee(Box::new(move |frame| {
                let asked = asking.send(Said::Asked(frame.to_vec())).ok().and_then(|()| answered.recv().ok());
                asked.map_or(Answer::Ended, Answer::Frame)
            }));
            let over = turn(&mut player, &request);
            drop(player);
            // Nobody listens any more where the judge ended first.
            let _ = saying.send(Said::Over(over));
        };
        match thread::Builder::new().name("sandbox-player".into()).spawn(work) {
            Ok(thread) => {
                self.running = Some(Running { answers, said, thread });
                self.listen()
            }
            Err(error) => {
                lock(&self.player).infra(format!("cannot start the player's thread: {error}"));
                Answer::Ended
            }
        }
    }

    /// Hands the waiting player what it asked for, or a request within.
    fn resume(&mut self, frame: &[u8]) -> Answer {
        let sent = self.running.as_ref().is_some_and(|running| running.answers.send(frame.to_vec()).is_ok());
        if sent { self.listen() } else { Answer::Ended }
    }

    /// Waits for what the player's thread says next.
    fn listen(&mut self) -> Answer {
        match self.running.as_ref().map(|running| running.said.recv()) {
            Some(Ok(Said::Asked(frame))) => Answer::Frame(frame),
            Some(Ok(Said::Over(answer))) => {
                self.stop();
                answer.map_or(Answer::Ended, Answer::Frame)
            }
            Some(Err(_)) | None => {
                self.stop();
                Answer::Ended
            }
        }
    }

    /// Ends a turn that still waits for an answer, and its thread.
    fn stop(&mut self) {
        if let Some(Running { answers, said, thread }) = self.running.take() {
            drop((answers, said));
            if thread.join().is_err() {
                lock(&self.player).infra("the player's thread panicked".into());
            }
        }
    }

    /// The end of the judge's turn: no thread is left, and these are its marks.
    pub(super) fn finish(&mut self) -> Vec<(Vec<u8>, u64)> {
        self.stop();
        std::mem::take(&mut self.marks)
    }
}

impl Drop for Border {
    fn drop(&mut self) {
        self.stop();
    }
}

/// One turn of the player's on a request of the judge's; `None` where it answers no more.
fn turn(player: &mut Player, request: &[u8]) -> Option<Vec<u8>> {
    let mut job = Vec::with_capacity(request.len() + 1);
    job.push(b'!');
    job.extend_from_slice(request);
    let answer = match player.ask(job) {
        Ok(Reply::Crossed(frame)) => frame,
        Ok(Reply::Raised { answer, .. }) => encode(&answer),
        Ok(Reply::Value(_) | Reply::Other(_)) => {
            player.broken();
            return None;
        }
        Err(_) => return None,
    };
    let mut frame = Vec::with_capacity(answer.len() + 1);
    frame.push(b'a');
    frame.extend_from_slice(&answer);
    Some(frame)
}
