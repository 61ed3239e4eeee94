//! Stopping a peer between its turns: the threads of some libraries spin long after their work, on cores that others are measured on.

use std::process::Child;

#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process};

/// Ends this process, a peer, with the one that started it, which may be killed while a peer is stopped and does not hear of it.
pub(super) fn end_with_parent() {
    // Where it cannot be asked for, standard input tells a peer that runs.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
}

/// Lets a peer run on.
pub(super) fn resume(child: &Child) {
    #[cfg(unix)]
    send(child, Signal::CONT);
    #[cfg(not(unix))]
    let _ = child;
}

/// Stops all threads of a peer where they are.
pub(super) fn suspend(child: &Child) {
    #[cfg(unix)]
    send(child, Signal::STOP);
    #[cfg(not(unix))]
    let _ = child;
}

/// A peer that has ended already says so at the next request.
#[cfg(unix)]
fn send(child: &Child, signal: Signal) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}
