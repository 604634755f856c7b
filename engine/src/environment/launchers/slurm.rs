//! srun. Rank 0 runs on the first host of the step's node list (unless tasks are laid out by hand, where `MASTER_ADDR` must say),
//! so that host is where it listens; `SLURM_LAUNCH_NODE_IPADDR`, where srun itself was called, is only the last resort.

use super::super::{EnvironmentError, Placement, Variables};
use super::{Job, Launcher, Names, Numbers};

const NAME: &str = "srun";

/// `SLURM_PROCID`, `SLURM_STEP_NUM_TASKS` or `SLURM_NTASKS`, `SLURM_LOCALID`, `SLURM_STEP_TASKS_PER_NODE`, `SLURM_STEP_NODELIST`,
/// `SLURM_JOB_ID`, `SLURM_STEP_ID`.
pub static LAUNCHER: Launcher = Launcher {
    name: NAME,
    is_present: |variables| variables.has(RANK) && is_step(variables),
    names: |variables| [RANK, world_name(variables)],
    read,
    contradicts: |_, _| false,
    marks: &[
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_GTIDS",
        "SLURM_NTASKS",
        "SLURM_NPROCS",
        "SLURM_STEP_*",
        "SLURM_STEPID",
        "SLURM_TASK_PID",
    ],
};

const RANK: &str = "SLURM_PROCID";
const STEP: &str = "SLURM_STEP_ID";
const NUM_TASKS: &str = "SLURM_STEP_NUM_TASKS";

fn world_name(variables: &Variables) -> &'static str {
    if variables.has(NUM_TASKS) { NUM_TASKS } else { "SLURM_NTASKS" }
}

fn read(variables: &Variables) -> Result<Placement, EnvironmentError> {
    let names =
        Names { rank: RANK, world: world_name(variables), local_rank: "SLURM_LOCALID", local_world: None };
    let mut numbers = Numbers::read(NAME, &names, variables)?;
    numbers.local_world = tasks_here(variables)?.filter(|tasks| numbers.local_rank < Some(*tasks));
    Job {
        launcher: NAME,
        rank: RANK,
        numbers,
        variables,
        identity: &["SLURM_JOB_ID"],
        details: &[STEP],
        daemons: &["slurmstepd"],
        option: None,
        host: first_host(variables),
    }
    .place()
}

/// Whether srun has started this process. The shell of a batch script or of an allocation has a task's number too, but no step, or one of the
/// numbers that Slurm keeps for its own.
fn is_step(variables: &Variables) -> bool {
    match variables.text(STEP).map(|step| step.trim().parse::<u32>()) {
        Some(Ok(step)) => step < FIRST_STEP_OF_SLURM,
        Some(Err(_)) => true,
        None => variables.has(NUM_TASKS),
    }
}

/// The highest numbers of steps are the batch script, the interactive shell and their like.
const FIRST_STEP_OF_SLURM: u32 = 0xffff_fff0;

/// Refuses to take the shell of a job that has several tasks for a world of one.
pub fn check_batch(variables: &Variables) -> Result<(), EnvironmentError> {
    match variables.number("SLURM_NTASKS")? {
        Some(tasks) if tasks > 1 && variables.has(RANK) => {
            let job = variables.text("SLURM_JOB_ID").unwrap_or("(without a number)").to_owned();
            Err(EnvironmentError::BatchScript { job, tasks })
        }
        _ => Ok(()),
    }
}

/// The first host of the step, or of the job.
pub fn first_host(variables: &Variables) -> Option<String> {
    let lists = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"];
    let listed = lists.iter().find_map(|name| first_of(variables.text(name)?));
    listed.or_else(|| variables.text("SLURM_LAUNCH_NODE_IPADDR").map(str::to_owned))
}

/// The first host of a list such as `gpu[003-010,12],login1`: `gpu003`.
fn first_of(list: &str) -> Option<String> {
    let mut host = String::new();
    let mut rest = list;
    while let Some(at) = rest.find(['[', ',']) {
        host.push_str(&rest[..at]);
        if rest[at..].starts_with(',') {
            return (!host.is_empty()).then_some(host);
        }
        let (numbers, after) = rest[at + 1..].split_once(']')?;
        host.push_str(numbers.split([',', '-']).next()?);
        rest = after;
    }
    host.push_str(rest);
    (!host.is_empty()).then_some(host)
}

/// The tasks on this node, by `SLURM_NODEID` and a list such as `4(x2),3`: 4, 4, 3.
fn tasks_here(variables: &Variables) -> Result<Option<usize>, EnvironmentError> {
    let lists = ["SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"];
    let Some(name) = lists.into_iter().find(|name| variables.has(name)) else { return Ok(None) };
    let Some(node) = variables.number("SLURM_NODEID")? else { return Ok(None) };
    let list = variables.text(name).unwrap_or_default();
    match tasks_of(list, node) {
        Some(tasks) => Ok(Some(tasks)),
        None => Err(EnvironmentError::Malformed {
            name,
            value: list.to_owned(),
            expected: "tasks per node such as 4(x2),3 that reach to SLURM_NODEID",
        }),
    }
}

fn tasks_of(list: &str, node: usize) -> Option<usize> {
    let mut nodes_before = 0usize;
    for part in list.split(',') {
        let (tasks, nodes) = match part.split_once("(x") {
            Some((tasks, nodes)) => (tasks, nodes.strip_suffix(')')?.parse().ok()?),
            None => (part, 1usize),
        };
        nodes_before = nodes_before.checked_add(nodes)?;
        if node < nodes_before {
            return tasks.trim().parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_host_of_a_list() {
        let cases = [
            ("gpu[003-010,12],login1", Some("gpu003")),
            ("login1,gpu[1-2]", Some("login1")),
            ("rack[2-3]node[07,9]", Some("rack2node07")),
            ("a", Some("a")),
            ("a[1-2].site", Some("a1.site")),
            ("a[1", None),
            ("", None),
            (",a", None),
        ];
        for (list, host) in cases {
            assert_eq!(first_of(list).as_deref(), host, "{list}");
        }
    }

    #[test]
    fn tasks_per_node() {
        let tasks: Vec<_> = (0..4).map(|node| tasks_of("4(x2),3", node)).collect();
        assert_eq!(tasks, [Some(4), Some(4), Some(3), None]);
        assert_eq!(tasks_of("4(x", 0), None);
        assert_eq!(tasks_of("4(x99999999999999999999)", 0), None);
        assert_eq!(tasks_of("1(x18446744073709551615),1(x2)", usize::MAX), None);
    }
}
