//! The launchers whose variables are understood, one file each, and the list of them. What they have in common is in `numbers` and `job`.

mod hcomm;
mod job;
mod mpirun;
mod numbers;
mod pmix;
mod slurm;
mod torchrun;

use super::{EnvironmentError, Placement, Variables};
use job::Job;
use numbers::{Names, Numbers};
pub use slurm::check_batch;

/// How one launcher tells its processes who they are.
pub struct Launcher {
    /// Its name, as errors and `doctor` say it.
    pub name: &'static str,
    /// Whether its variables are there.
    pub is_present: fn(&Variables) -> bool,
    /// The variables of the rank and of the number of ranks.
    pub names: fn(&Variables) -> [&'static str; 2],
    /// Reads them.
    pub read: fn(&Variables) -> Result<Placement, EnvironmentError>,
    /// Whether what another launcher says otherwise, of a world of so many ranks, is a mistake; else that one ran outside of this one.
    pub contradicts: fn(&Variables, usize) -> bool,
    /// Every variable that says who a process is or ties it to this launcher: what another launcher that runs within this one has to take away. A `*`
    /// at the end stands for anything.
    pub marks: &'static [&'static str],
}

/// Every launcher. The first one that shows is believed, so the innermost come first: a program under torchrun under srun
/// belongs to torchrun, and one under mpirun in a Slurm job to mpirun.
pub static LAUNCHERS: &[&Launcher] = &[
    &hcomm::LAUNCHER,
    &torchrun::LAUNCHER,
    &mpirun::OPEN_MPI,
    &mpirun::HYDRA,
    &slurm::LAUNCHER,
    &pmix::LAUNCHER,
];

/// Whether a variable of the given name belongs to a launcher: one that starts ranks of its own takes it out of their environment.
pub fn is_superseded(name: &str) -> bool {
    let matches = |mark: &&str| match mark.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *mark,
    };
    LAUNCHERS.iter().flat_map(|launcher| launcher.marks).any(matches)
}
