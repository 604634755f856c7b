//! Each launcher's variables, as they are and as they go wrong.

use proptest::prelude::*;

use super::starter::Starter;
use super::*;

fn place(pairs: &[(&str, &str)]) -> Result<Placement, EnvironmentError> {
    Placement::from_variables(&Variables::from_pairs(pairs.iter().copied()))
}

fn placed(pairs: &[(&str, &str)]) -> Placement {
    place(pairs).unwrap_or_else(|error| panic!("{error}"))
}

fn text_of(pairs: &[(&str, &str)]) -> String {
    place(pairs).expect_err("the variables are wrong").to_string()
}

const HEX: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

const HCOMM: &[(&str, &str)] = &[
    ("HCOMM_RANK", "1"),
    ("HCOMM_WORLD", "2"),
    ("HCOMM_LOCAL_RANK", "1"),
    ("HCOMM_LOCAL_WORLD", "2"),
    ("HCOMM_ADDRESS", "127.0.0.1:4000"),
    ("HCOMM_TOKEN", HEX),
];

const TORCHRUN: &[(&str, &str)] = &[
    ("RANK", "5"),
    ("WORLD_SIZE", "8"),
    ("LOCAL_RANK", "1"),
    ("LOCAL_WORLD_SIZE", "4"),
    ("MASTER_ADDR", "node0"),
    ("MASTER_PORT", "29500"),
    ("TORCHELASTIC_RUN_ID", "42"),
];

const SRUN: &[(&str, &str)] = &[
    ("SLURM_PROCID", "9"),
    ("SLURM_NTASKS", "16"),
    ("SLURM_STEP_NUM_TASKS", "11"),
    ("SLURM_LOCALID", "1"),
    ("SLURM_NODEID", "2"),
    ("SLURM_STEP_TASKS_PER_NODE", "4(x2),3"),
    ("SLURM_STEP_NODELIST", "gpu[03-04,7]"),
    ("SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"),
    ("SLURM_JOB_ID", "123"),
    ("SLURM_STEP_ID", "0"),
];

const OPEN_MPI: &[(&str, &str)] = &[
    ("OMPI_COMM_WORLD_RANK", "3"),
    ("OMPI_COMM_WORLD_SIZE", "4"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "3"),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
    ("PMIX_RANK", "3"),
    ("PMIX_NAMESPACE", "112066561"),
];

const HYDRA: &[(&str, &str)] =
    &[("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "0"), ("MPI_LOCALNRANKS", "2")];

const PMIX: &[(&str, &str)] =
    &[("PMIX_RANK", "1"), ("WORLD_SIZE", "3"), ("MASTER_ADDR", "a"), ("PMIX_NAMESPACE", "job.1")];

fn without<'a>(pairs: &[(&'a str, &'a str)], name: &str) -> Vec<(&'a str, &'a str)> {
    pairs.iter().copied().filter(|(n, _)| *n != name).collect()
}

fn with<'a>(pairs: &[(&'a str, &'a str)], name: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut changed = without(pairs, name);
    changed.push((name, value));
    changed
}

#[test]
fn no_launcher_is_a_world_of_one() {
    let placement = placed(&[("PATH", "/bin"), ("HOME", "/")]);
    assert_eq!((placement.rank, placement.world, placement.source), (0, 1, "alone"));
}

#[test]
fn every_launcher_of_the_list_is_read() {
    let cases = [
        (HCOMM, "hcomm launch", (1, 2), Some((1, 2))),
        (TORCHRUN, "torchrun", (5, 8), Some((1, 4))),
        (OPEN_MPI, "mpirun (Open MPI)", (3, 4), Some((3, 4))),
        (HYDRA, "mpirun (Hydra)", (0, 2), Some((0, 2))),
        (SRUN, "srun", (9, 11), Some((1, 3))),
        (PMIX, "a PMIx launcher", (1, 3), None),
    ];
    let names: Vec<&str> = LAUNCHERS.iter().map(|launcher| launcher.name).collect();
    assert_eq!(names.len(), cases.len());
    for (pairs, source, place, local) in cases {
        let p = placed(&with(pairs, "PMI_JOBID", "9"));
        assert!(names.contains(&source));
        assert_eq!((p.source, (p.rank, p.world)), (source, place));
        assert_eq!(p.local_rank.zip(p.local_world), local, "{source}");
    }
}

/// Those of one host with a token of the user's, so that the address is not left for rank 0 to choose.
#[test]
fn addresses() {
    let secret = |pairs: &[(&'static str, &'static str)]| with(pairs, "HCOMM_TOKEN", HEX);
    let cases: &[(Vec<(&str, &str)>, &str)] = &[
        (HCOMM.to_vec(), "127.0.0.1:4000"),
        (TORCHRUN.to_vec(), "node0:29501"),
        (with(TORCHRUN, "HCOMM_PORT", "7"), "node0:7"),
        (with(TORCHRUN, "HCOMM_PORT", "tcp://10.0.0.7:80"), "node0:29501"),
        (with(TORCHRUN, "HCOMM_ADDRESS", "b:8"), "b:8"),
        (with(SRUN, "HCOMM_PORT", "7"), "gpu03:7"),
        (with(&without(SRUN, "SLURM_STEP_NODELIST"), "HCOMM_PORT", "7"), "10.0.0.1:7"),
        (with(&secret(OPEN_MPI), "HCOMM_PORT", "7"), "127.0.0.1:7"),
        (with(&with(&secret(HYDRA), "HCOMM_PORT", "7"), "MASTER_ADDR", "::1"), "[::1]:7"),
        (with(&with(&secret(HYDRA), "HCOMM_PORT", "7"), "MASTER_ADDR", "[::1]"), "[::1]:7"),
    ];
    for (pairs, address) in cases {
        assert_eq!(placed(pairs).address.to_string(), *address);
    }
}

/// Where all ranks are on one host and the user gives no token, rank 0 chooses both and leaves them under the job's name.
#[test]
fn a_job_of_one_host_leaves_its_secret() {
    let here = |pairs| with(&with(pairs, "LOCAL_RANK", "5"), "LOCAL_WORLD_SIZE", "8");
    let cases = [
        (here(TORCHRUN), "127.0.0.1:0"),
        (with(TORCHRUN, "MASTER_ADDR", "localhost"), "localhost:0"),
        (with(&with(TORCHRUN, "MASTER_ADDR", "[::1]"), "HCOMM_PORT", "7"), "[::1]:7"),
        (OPEN_MPI.to_vec(), "127.0.0.1:0"),
        (with(OPEN_MPI, "HCOMM_PORT", "7"), "127.0.0.1:7"),
        (with(OPEN_MPI, "HCOMM_ADDRESS", "10.0.0.7:7"), "10.0.0.7:7"),
        (with(SRUN, "SLURM_STEP_TASKS_PER_NODE", "1,1,11"), "127.0.0.1:0"),
    ];
    for (pairs, address) in cases {
        let placement = placed(&pairs);
        assert_eq!(placement.address.to_string(), address, "{}", placement.source);
        assert!(matches!(placement.secret, Secret::Left(_)), "{}: {:?}", placement.source, placement.secret);
        let secret = placed(&with(&pairs, "HCOMM_TOKEN", HEX)).secret;
        assert_eq!(secret, Secret::Given(Token::from_hex(HEX).unwrap()));
    }
}

#[test]
fn all_ranks_of_a_job_find_the_same_address_and_secret_and_other_jobs_others() {
    let fifth = placed(SRUN);
    let first = placed(&with(&with(SRUN, "SLURM_PROCID", "0"), "SLURM_NODEID", "0"));
    assert_eq!((&fifth.address, &fifth.secret), (&first.address, &first.secret));
    assert!(matches!(fifth.secret, Secret::Public(_)));
    let other = placed(&with(SRUN, "SLURM_JOB_ID", "124"));
    assert_ne!(fifth.secret, other.secret);
    assert_ne!(fifth.address.port, other.address.port);
    let other = placed(&with(SRUN, "SLURM_STEP_ID", "1"));
    assert_ne!(fifth.secret, other.secret);
    let secret = placed(&with(SRUN, "HCOMM_TOKEN", HEX));
    assert_eq!(secret.secret, Secret::Given(Token::from_hex(HEX).unwrap()));
    let names = ["1", "2"].map(|number| placed(&with(OPEN_MPI, "PMIX_NAMESPACE", number)).secret);
    assert_ne!(names[0], names[1]);
}

fn proxy(pid: u32, port: &str) -> Option<Starter> {
    let arguments =
        ["hydra_pmi_proxy", "--control-port", port, "--proxy-id", "0"].map(str::to_owned).to_vec();
    Some(Starter { pid, started: 5, arguments })
}

/// Hydra numbers no jobs; its processes tell them apart.
#[test]
fn a_job_without_a_number_is_told_by_the_process_that_started_it() {
    let hydra = |pairs: &[(&str, &str)]| Variables::from_pairs(pairs.iter().copied());
    let place = |variables: Variables| Placement::from_variables(&variables).unwrap();
    let one = place(hydra(HYDRA).set_by(|_, _| proxy(7, "vm:1")));
    let two = place(hydra(&with(HYDRA, "PMI_RANK", "1")).set_by(|_, _| proxy(7, "vm:1")));
    let other = place(hydra(HYDRA).set_by(|_, _| proxy(8, "vm:2")));
    assert!(matches!(one.secret, Secret::Left(_)));
    assert_eq!(one.secret, two.secret);
    assert_ne!(one.secret, other.secret);
    // Between hosts every proxy is a process of its own, and has mpiexec's address on its command line.
    let far = with(&without(&without(HYDRA, "MPI_LOCALNRANKS"), "MPI_LOCALRANKID"), "MASTER_ADDR", "a");
    let one = place(hydra(&far).set_by(|_, _| proxy(7, "vm:1")));
    let two = place(hydra(&with(&far, "PMI_RANK", "1")).set_by(|_, _| proxy(9, "vm:1")));
    let other = place(hydra(&far).set_by(|_, _| proxy(7, "vm:2")));
    assert!(matches!(one.secret, Secret::Public(_)));
    assert_eq!((&one.secret, &one.address), (&two.secret, &two.address));
    assert_ne!(one.secret, other.secret);
    assert_ne!(one.address, other.address);
}

/// Whatever a launcher's optional variables are, none of its jobs has an identity made of none of them.
#[test]
fn a_job_that_nothing_tells_from_others_is_refused() {
    let optional = ["PMIX_NAMESPACE", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "MASTER_PORT", "PMI_JOBID"];
    for pairs in [TORCHRUN, SRUN, OPEN_MPI, HYDRA, PMIX] {
        let bare: Vec<_> = pairs.iter().copied().filter(|(name, _)| !optional.contains(name)).collect();
        let text = text_of(&bare);
        assert!(
            text.contains("nothing tells its job from another") && text.contains("HCOMM_TOKEN"),
            "{text}"
        );
        let secret = with(&with(&bare, "HCOMM_TOKEN", HEX), "HCOMM_ADDRESS", "a:7");
        assert_eq!(placed(&secret).address.to_string(), "a:7");
        let user = with(&bare, "HCOMM_ADDRESS", "a:7");
        assert_eq!(placed(&user).address.to_string(), "a:7");
    }
    // A word that torchrun uses for all runs without a name is no name.
    let text = text_of(&with(&without(TORCHRUN, "MASTER_PORT"), "TORCHELASTIC_RUN_ID", "none"));
    assert!(text.contains("nothing tells its job from another"), "{text}");
}

#[test]
fn launchers_that_contradict_each_other_are_named_with_their_variables() {
    let both = |one: &[(&'static str, &'static str)], two: &[(&'static str, &'static str)]| -> Vec<_> {
        one.iter().chain(two).copied().collect()
    };
    let hcomm = without(&without(HCOMM, "HCOMM_LOCAL_RANK"), "HCOMM_LOCAL_WORLD");
    let by_hand = without(TORCHRUN, "TORCHELASTIC_RUN_ID");
    let cases = [
        (
            both(&hcomm, TORCHRUN),
            [
                "hcomm launch says rank 1 of 2 (HCOMM_RANK, HCOMM_WORLD)",
                "torchrun says rank 5 of 8 (RANK, WORLD_SIZE)",
            ],
        ),
        (both(&hcomm, OPEN_MPI), ["HCOMM_WORLD", "OMPI_COMM_WORLD_RANK"]),
        (both(&hcomm, SRUN), ["HCOMM_WORLD", "SLURM_STEP_NUM_TASKS"]),
        (both(&hcomm, HYDRA), ["HCOMM_WORLD", "PMI_SIZE"]),
        (both(&by_hand, OPEN_MPI), ["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"]),
        (both(&by_hand, SRUN), ["WORLD_SIZE", "SLURM_PROCID"]),
    ];
    for (pairs, words) in cases {
        let text = text_of(&pairs);
        assert!(words.iter().all(|word| text.contains(word)) && text.contains("Unset "), "{text}");
    }
    // Those that agree, and those that ran outside.
    let torch = with(&with(&by_hand, "RANK", "1"), "WORLD_SIZE", "2");
    assert_eq!(placed(&both(HCOMM, &torch)).source, "hcomm launch");
    assert_eq!(placed(&both(TORCHRUN, OPEN_MPI)).source, "torchrun");
    let one =
        with(&with(&with(SRUN, "SLURM_PROCID", "0"), "SLURM_STEP_NUM_TASKS", "1"), "SLURM_LOCALID", "0");
    assert_eq!(placed(&both(&by_hand, &one)).source, "torchrun");
    let batch: Vec<_> = SRUN.iter().copied().filter(|(name, _)| !name.starts_with("SLURM_STEP")).collect();
    assert_eq!(placed(&both(&hcomm, &batch)).source, "hcomm launch");
}

#[test]
fn the_shell_of_a_slurm_job_is_no_rank() {
    let batch: Vec<_> = SRUN.iter().copied().filter(|(name, _)| !name.starts_with("SLURM_STEP")).collect();
    for pairs in [batch.clone(), with(&batch, "SLURM_STEP_ID", "4294967290")] {
        let text = text_of(&pairs);
        assert!(
            text.contains("Slurm job 123, which has 16 tasks") && text.contains("`srun PROGRAM`"),
            "{text}"
        );
    }
    assert_eq!(placed(&with(&batch, "SLURM_NTASKS", "1")).source, "alone");
    assert_eq!(placed(&without(&batch, "SLURM_NTASKS")).source, "alone");
}

#[test]
fn a_launcher_that_starts_ranks_takes_away_what_others_have_set() {
    for pairs in [TORCHRUN, OPEN_MPI, HYDRA, PMIX, HCOMM] {
        for (name, _) in pairs.iter().filter(|(name, _)| !name.starts_with("SLURM")) {
            assert!(is_superseded(name), "{name}");
        }
    }
    let rest: Vec<_> = SRUN.iter().copied().filter(|(name, _)| !is_superseded(name)).collect();
    assert_eq!(placed(&rest).source, "alone");
    for name in ["PATH", "SLURM_JOB_ID", "OMPI_MCA_btl", "HCOMM_DEPTH", "RANKS", "OMP_NUM_THREADS"] {
        assert!(!is_superseded(name), "{name}");
    }
}

#[test]
fn a_launcher_inside_another_is_the_one_believed() {
    let both: Vec<_> = SRUN.iter().chain(TORCHRUN).copied().collect();
    assert_eq!(placed(&both).source, "torchrun");
    let both: Vec<_> = SRUN.iter().chain(OPEN_MPI).copied().collect();
    assert_eq!(placed(&both).source, "mpirun (Open MPI)");
}

#[test]
fn what_is_missing_is_named() {
    for name in ["HCOMM_RANK", "HCOMM_WORLD", "HCOMM_ADDRESS", "HCOMM_TOKEN"] {
        let text = text_of(&without(HCOMM, name));
        assert!(text.contains(&format!("{name} is not set; expected")), "{text}");
    }
    for (pairs, name) in [(SRUN, "MASTER_ADDR"), (HYDRA, "MASTER_ADDR"), (TORCHRUN, "MASTER_ADDR")] {
        let gone = ["SLURM_STEP_NODELIST", "SLURM_LAUNCH_NODE_IPADDR", "MPI_LOCALNRANKS", "MASTER_ADDR"];
        let pairs: Vec<_> = pairs.iter().copied().filter(|(n, _)| !gone.contains(n)).collect();
        let text = text_of(&with(&pairs, "PMI_JOBID", "9"));
        assert!(text.contains(&format!("{name} is not set")), "{text}");
    }
    assert!(
        text_of(&without(TORCHRUN, "WORLD_SIZE")).contains("torchrun set this process up, but WORLD_SIZE")
    );
    assert!(text_of(&without(PMIX, "WORLD_SIZE")).contains("WORLD_SIZE is not set"));
}

#[test]
fn what_is_malformed_is_named_with_its_value() {
    let cases = [
        (with(HCOMM, "HCOMM_RANK", "one"), "HCOMM_RANK is 'one'; expected a number"),
        (with(HCOMM, "HCOMM_RANK", "-1"), "HCOMM_RANK is '-1'"),
        (
            with(HCOMM, "HCOMM_RANK", "2"),
            "HCOMM_RANK is 2, but HCOMM_WORLD says that there are 2 ranks; expected a rank from 0 to 1",
        ),
        (with(HCOMM, "HCOMM_WORLD", "0"), "HCOMM_WORLD is '0'; expected the number of ranks, at least 1"),
        (with(HCOMM, "HCOMM_LOCAL_RANK", "2"), "HCOMM_LOCAL_RANK is 2, but HCOMM_LOCAL_WORLD"),
        (with(HCOMM, "HCOMM_ADDRESS", "nowhere"), "HCOMM_ADDRESS is 'nowhere'; expected HOST:PORT"),
        (with(TORCHRUN, "MASTER_PORT", "65535"), "MASTER_PORT is '65535'; expected a port below 65535"),
        (with(TORCHRUN, "HCOMM_PORT", "0"), "HCOMM_PORT is '0'"),
        (with(SRUN, "SLURM_STEP_TASKS_PER_NODE", "4"), "SLURM_STEP_TASKS_PER_NODE is '4'"),
    ];
    for (pairs, expected) in cases {
        let text = text_of(&pairs);
        assert!(text.starts_with(expected), "{text}");
    }
}

#[test]
fn a_wrong_token_is_refused_without_repeating_it() {
    let text = text_of(&with(HCOMM, "HCOMM_TOKEN", &HEX[1..]));
    assert_eq!(text, "HCOMM_TOKEN is '(63 characters)'; expected 64 hexadecimal digits");
}

/// Every name that any launcher reads.
fn names() -> Vec<&'static str> {
    let lists = [HCOMM, TORCHRUN, SRUN, OPEN_MPI, HYDRA, PMIX];
    lists.into_iter().flatten().map(|(name, _)| *name).chain(["HCOMM_PORT"]).collect()
}

proptest! {
    #[test]
    fn nothing_in_the_environment_panics_and_what_is_read_is_sound(
        pairs in prop::collection::vec((prop::sample::select(names()), "[0-9]{1,2}|.{0,12}|4\\(x2\\),3|a\\[1-3\\]"), 0..12),
    ) {
        let variables = Variables::from_pairs(pairs);
        match Placement::from_variables(&variables) {
            Ok(placement) => {
                prop_assert!(placement.rank < placement.world);
                prop_assert!(!placement.address.host.is_empty());
                if let (Some(rank), Some(world)) = (placement.local_rank, placement.local_world) {
                    prop_assert!(rank < world);
                }
            }
            Err(error) => prop_assert!(error.to_string().contains("expected")),
        }
    }
}
