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
}
