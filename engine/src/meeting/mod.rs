//! How rank 0 tells the other ranks of its host where it listens and what the job's token is: by a file that only this user can read.
//!
//! Rank 0 listens, writes its address and a token that it has drawn, and takes the file away when all have come. The others look for it until they
//! find it. A file whose writer has ended is nobody's: the system's number and start of the writer stand in it.

mod folder;
mod note;

use std::net::TcpListener;
use std::path::PathBuf;

use crate::environment::{Address, JobName, Token};
use note::Note;

/// Rank 0 cannot leave its address and token.
#[derive(Debug, thiserror::Error)]
pub enum MeetingError {
    /// There is no place for them. `HCOMM_ADDRESS` and `HCOMM_TOKEN` do without.
    #[error(
        "rank 0 finds no folder for the job's secret that only this user can read ({tried}); set HCOMM_ADDRESS and HCOMM_TOKEN, the same on all ranks"
    )]
    NoFolder {
        /// The folders, and what is wrong with each.
        tried: String,
    },
    /// Another job of this user and host is starting that nothing tells from this one.
    #[error(
        "process {pid} starts a job at this moment that nothing tells from this one; give each its own MASTER_PORT, or its own HCOMM_ADDRESS and HCOMM_TOKEN"
    )]
    Taken {
        /// Its rank 0.
        pid: u32,
    },
    /// The system refused.
    #[error("rank 0 cannot {what}: {cause}")]
    System {
        /// What was to be done.
        what: String,
        /// Why not.
        cause: std::io::Error,
    },
}

/// What rank 0 has left, until this is dropped.
#[derive(Debug)]
pub struct Left {
    path: PathBuf,
    note: Note,
}

impl Left {
    /// Listens at the address (at a port that is free, where it has none), and leaves that and a new token under the job's name.
    ///
    /// # Errors
    /// See [`MeetingError`].
    pub fn leave(
        job: &JobName,
        address: &Address,
        listener: Option<TcpListener>,
    ) -> Result<(Left, TcpListener, Address, Token), MeetingError> {
        let failed = |what: String| move |cause| MeetingError::System { what, cause };
        let listener = listener.map_or_else(|| listen(address), Ok);
        let listener = listener.map_err(failed(format!("listen at {address}")))?;
        let own = listener.local_addr().map_err(failed("read its own address".to_owned()))?;
        let address = Address { host: own.ip().to_string(), port: own.port() };
        let token = Token::draw().map_err(failed("draw a token".to_owned()))?;
        let note = Note::new(address.clone(), token);
        let folder = folder::make()?;
        note::sweep(&folder);
        let path = folder.join(file_name(job));
        match Note::read(&path) {
            Ok(other) if other.is_of_another_process() => return Err(MeetingError::Taken { pid: other.pid }),
            _ => {}
        }
        note.write(&path).map_err(failed(format!("write {}", path.display())))?;
        Ok((Left { path, note }, listener, address, token))
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        // Another one may lie there by now, which is not this one's.
        if Note::read(&self.path).is_ok_and(|note| note == self.note) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// What rank 0 of a job has left.
///
/// # Errors
/// Why it is not there, for people.
pub fn find(job: &JobName) -> Result<(Address, Token), String> {
    let mut causes = Vec::new();
    for folder in folder::candidates() {
        let path = folder.join(file_name(job));
        match folder::check(&folder).and_then(|()| Note::read(&path)) {
            Ok(note) => return Ok((note.address, note.token)),
            Err(cause) => causes.push(format!("{}: {cause}", path.display())),
        }
    }
    Err(format!("it has not left its address in a file of this host and user ({})", causes.join("; ")))
}

/// The folder that rank 0 would leave it in.
///
/// # Errors
/// Where there is none.
pub fn folder() -> Result<PathBuf, MeetingError> {
    folder::make()
}

fn file_name(job: &JobName) -> String {
    format!("job-{}", job.as_str())
}

/// Listens; where the loopback interface has no address of IPv4, at that of IPv6.
fn listen(address: &Address) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind((address.host.as_str(), address.port));
    match listener {
        Err(error) if error.kind() == std::io::ErrorKind::AddrNotAvailable && address.is_loopback() => {
            TcpListener::bind((std::net::Ipv6Addr::LOCALHOST, address.port))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(fact: &str) -> JobName {
        JobName::of(&[fact, &std::process::id().to_string()])
    }

    #[test]
    fn what_is_left_is_found_and_then_taken_away() {
        let job = job("a job");
        let missing = find(&job).expect_err("nobody has left it");
        assert!(missing.contains(job.as_str()), "{missing}");
        let (left, listener, address, token) =
            Left::leave(&job, &Address::loopback(0), None).expect("there is a folder");
        assert_eq!(listener.local_addr().expect("it listens").port(), address.port);
        assert_eq!(find(&job), Ok((address, token)));
        let path = left.path.clone();
        let mode = |path: &std::path::Path| {
            use std::os::unix::fs::PermissionsExt;
            std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
        };
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().expect("it is in a folder")), 0o700);
        drop(left);
        assert!(find(&job).is_err() && !path.exists());
    }

    #[test]
    fn a_later_one_of_the_same_process_takes_its_place_and_stays() {
        let job = job("a job made twice");
        let (first, ..) = Left::leave(&job, &Address::loopback(0), None).expect("there is a folder");
        let (_second, _, address, token) =
            Left::leave(&job, &Address::loopback(0), None).expect("it is its own");
        drop(first);
        assert_eq!(find(&job), Ok((address, token)));
    }

    #[test]
    fn one_of_a_process_that_has_ended_is_nobodys_and_one_that_runs_is_kept() {
        let job = job("a job of others");
        let (left, ..) = Left::leave(&job, &Address::loopback(0), None).expect("there is a folder");
        let mut other = std::process::Command::new("sleep").arg("60").spawn().expect("sleep is there");
        let started = crate::environment::starter::start_of(other.id()).expect("it runs");
        let note = Note { pid: other.id(), started, ..left.note.clone() };
        note.write(&left.path).expect("it can be written");
        let taken = Left::leave(&job, &Address::loopback(0), None).expect_err("the other runs");
        assert!(matches!(taken, MeetingError::Taken { pid } if pid == other.id()), "{taken}");
        other.kill().expect("it runs");
        // It is not waited for yet, so it is still there, though ended.
        while crate::environment::starter::start_of(other.id()).is_some() {
            std::thread::yield_now();
        }
        assert!(find(&job).is_err());
        Left::leave(&job, &Address::loopback(0), None).expect("its writer has ended");
        other.wait().expect("it is a child");
    }
}
