//! What can be wrong with a launcher's variables.

/// The environment does not say who this process is. The text names the variable to set or mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// A variable that goes with others is not set.
    #[error("{launcher} set this process up, but {name} is not set; expected {expected}")]
    Missing {
        /// Who set the others.
        launcher: &'static str,
        /// The variable.
        name: &'static str,
        /// What it should hold.
        expected: &'static str,
    },
    /// A variable's value cannot be read.
    #[error("{name} is '{value}'; expected {expected}")]
    Malformed {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// A rank that is not below the number of ranks.
    #[error("{rank_name} is {rank}, but {world_name} says that there are {world} ranks; expected a rank from 0 to {}", world - 1)]
    OutOfWorld {
        /// The variable of the rank.
        rank_name: &'static str,
        /// Its value.
        rank: usize,
        /// The variable of the number of ranks.
        world_name: &'static str,
        /// Its value, at least 1.
        world: usize,
    },
    /// Two launchers say different things.
    #[error(
        "{one}, but {other}; expected the same of both. Unset {unset} if they are left over; a launcher that runs within another has to replace them"
    )]
    Contradiction {
        /// What the one says, and in which variables.
        one: String,
        /// What the other says, and in which variables.
        other: String,
        /// The variables of the other.
        unset: String,
    },
    /// Nothing tells the job from another one.
    #[error(
        "{launcher} set this process up, but nothing tells its job from another of the same hosts ({lacking}); expected HCOMM_ADDRESS and HCOMM_TOKEN, the same on all ranks and others for each job"
    )]
    NoIdentity {
        /// Who set the variables.
        launcher: &'static str,
        /// What was looked for.
        lacking: String,
    },
    /// A batch script of Slurm's is taken for a rank.
    #[error(
        "this process runs in the batch script of Slurm job {job}, which has {tasks} tasks, and srun has not started it; expected `srun PROGRAM` in place of `PROGRAM` in the script (or HCOMM_RANK=0 HCOMM_WORLD=1 for a world of one)"
    )]
    BatchScript {
        /// The job.
        job: String,
        /// `SLURM_NTASKS`.
        tasks: usize,
    },
}
