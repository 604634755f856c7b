//! mpirun, of Open MPI and of MPICH and its kin (the Hydra launcher). hcomm does not use MPI; it reads who it is.
//!
//! Open MPI says how many ranks a host has, so one host needs nothing more. Beyond that, or where Hydra does not say, `MASTER_ADDR` names
//! rank 0's host (within a Slurm job the node list does).

use super::super::{EnvironmentError, Placement, Variables};
use super::{Launcher, Names, Numbers, job_token, rendezvous_address, slurm};

/// A kind of mpirun: its name, its numbers, and where its job's identity shows.
struct Kind {
    name: &'static str,
    names: Names,
    identity: &'static [&'static str],
}

const OPEN_MPI_KIND: Kind = Kind {
    name: "mpirun (Open MPI)",
    names: Names {
        rank: "OMPI_COMM_WORLD_RANK",
        world: "OMPI_COMM_WORLD_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        local_world: Some("OMPI_COMM_WORLD_LOCAL_SIZE"),
    },
    identity: &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"],
};

const HYDRA_KIND: Kind = Kind {
    name: "mpirun (Hydra)",
    names: Names {
        rank: "PMI_RANK",
        world: "PMI_SIZE",
        local_rank: "MPI_LOCALRANKID",
        local_world: Some("MPI_LOCALNRANKS"),
    },
    identity: &["PMI_JOBID"],
};

/// `OMPI_COMM_WORLD_RANK` and its kin.
pub static OPEN_MPI: Launcher = Launcher {
    name: OPEN_MPI_KIND.name,
    is_present: |variables| variables.has(OPEN_MPI_KIND.names.rank),
    read: |variables| read(&OPEN_MPI_KIND, variables),
};

/// `PMI_RANK` and its kin.
pub static HYDRA: Launcher = Launcher {
    name: HYDRA_KIND.name,
    is_present: |variables| variables.has(HYDRA_KIND.names.rank),
    read: |variables| read(&HYDRA_KIND, variables),
};

fn read(kind: &Kind, variables: &Variables) -> Result<Placement, EnvironmentError> {
    let numbers = Numbers::read(kind.name, &kind.names, variables)?;
    let facts = kind.identity.iter().filter_map(|name| variables.text(name));
    let job = [variables.text("SLURM_JOB_ID"), variables.text("MASTER_PORT")].into_iter().flatten();
    let identity: Vec<&str> = [kind.name].into_iter().chain(facts).chain(job).collect();
    let address =
        rendezvous_address(kind.name, &numbers, variables, &identity, slurm::first_host(variables))?;
    Ok(numbers.place(address, job_token(variables, &identity)?, kind.name))
}
