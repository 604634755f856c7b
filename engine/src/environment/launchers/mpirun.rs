//! mpirun, of Open MPI and of MPICH and its kin (the Hydra launcher). hcomm does not use MPI; it reads who it is.
//!
//! Both say how many ranks a host has, so one host needs nothing more. Beyond that `MASTER_ADDR` names rank 0's host (within a Slurm job the node
//! list does). Hydra gives its jobs no number. On one host its proxy's process tells them apart; between hosts the address of mpiexec, which
//! every proxy has on its command line.

use super::super::{EnvironmentError, Placement, Variables};
use super::{Job, Launcher, Names, Numbers, slurm};

/// A kind of mpirun: its name, its numbers, and where its job's identity shows.
struct Kind {
    name: &'static str,
    names: Names,
    identity: &'static [&'static str],
    daemons: &'static [&'static str],
    option: Option<&'static str>,
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
    daemons: &["orted", "prted", "orterun", "prterun", "mpirun", "mpirun.openmpi", "mpiexec.openmpi"],
    option: None,
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
    daemons: &["hydra_pmi_proxy", "pmi_proxy"],
    option: Some("--control-port"),
};

/// `OMPI_COMM_WORLD_RANK` and its kin.
pub static OPEN_MPI: Launcher = Launcher {
    name: OPEN_MPI_KIND.name,
    is_present: |variables| variables.has(OPEN_MPI_KIND.names.rank),
    names: |_| [OPEN_MPI_KIND.names.rank, OPEN_MPI_KIND.names.world],
    read: |variables| read(&OPEN_MPI_KIND, variables),
    contradicts: |_, _| false,
    marks: &[
        "OMPI_COMM_WORLD_*",
        "OMPI_UNIVERSE_SIZE",
        "OMPI_MCA_ess*",
        "OMPI_MCA_orte_*",
        "OMPI_MCA_prte_*",
    ],
};

/// `PMI_RANK` and its kin.
pub static HYDRA: Launcher = Launcher {
    name: HYDRA_KIND.name,
    is_present: |variables| variables.has(HYDRA_KIND.names.rank),
    names: |_| [HYDRA_KIND.names.rank, HYDRA_KIND.names.world],
    read: |variables| read(&HYDRA_KIND, variables),
    contradicts: |_, _| false,
    marks: &["PMI_*", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "HYDI_CONTROL_FD"],
};

fn read(kind: &Kind, variables: &Variables) -> Result<Placement, EnvironmentError> {
    let Kind { name, names, identity, daemons, option } = kind;
    let numbers = Numbers::read(name, names, variables)?;
    let host = slurm::first_host(variables);
    let details = &["SLURM_JOB_ID"];
    Job {
        launcher: name,
        rank: names.rank,
        numbers,
        variables,
        identity,
        details,
        daemons,
        option: *option,
        host,
    }
    .place()
}
