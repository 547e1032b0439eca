//! Waiting for an answer, but not for ever.

use std::sync::mpsc::channel;
use std::time::Duration;

/// What a thread of its own finds out, if it does so in time. Else the thread is left behind: it ends with what it waits for, or with
/// rdiag.
pub fn within<T: Send + 'static>(patience: Duration, find: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (answer, answers) = channel();
    let run = move || drop(answer.send(find()));
    std::thread::Builder::new().name("asker".into()).spawn(run).ok()?;
    answers.recv_timeout(patience).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_does_not_come_is_none() {
        assert_eq!(within(Duration::from_secs(60), || 7), Some(7));
        let (hold, held) = channel::<()>();
        assert_eq!(within(Duration::from_millis(20), move || held.recv().is_ok()), None);
        drop(hold);
    }
}
