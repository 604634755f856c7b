//! How a communicator comes to be: from the environment, by hand, or between threads of this process.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use hcomm_ops::Rank;
use hcomm_planner::choose::LinkKind;
use hcomm_planner::{PinError, Topology};
use hcomm_transports::rendezvous::{Cancel, Dimensions, JoinError, Roster, Route};
use hcomm_transports::tcp::TcpOptions;
use hcomm_transports::{Control, Endpoint, control, inproc};

use super::agreed::Agreed;
use super::closing::Closing;
use super::place::{crowded, hosts_of, is_crowded, planner, shortage_ahead, topology_of, usable_cores};
use super::split::Hall;
use super::summon::{self, Call, met_at, token_of};
use super::{Communicator, Facts, Inner, Link, Options};
use crate::cache::PlanCache;
use crate::domain::core::{Core, Limits};
use crate::domain::peers::Peers;
use crate::domain::watch::Watch;
use crate::domain::{Domain, Patience};
use crate::environment::{Address, EnvironmentError, Placement, Token};
use crate::error::Ranks;
use crate::log::Log;
use crate::meeting::MeetingError;
use crate::profile::Recorder;
use crate::settings::{AgreementError, SettingError, Settings};
use crate::tuning::{self, Spread, Tuned, TunedError};

/// Why there is no communicator.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// A setting is unknown or has a bad value.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Rank 0's settings cannot be taken over.
    #[error(transparent)]
    Agreement(#[from] AgreementError),
    /// The environment does not say which rank this is.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// No ranks.
    #[error("a world of 0 ranks; expected at least 1")]
    EmptyWorld,
    /// The ranks did not meet.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// Rank 0 could not leave the others word of where it is.
    #[error(transparent)]
    Meeting(#[from] MeetingError),
    /// Rank 0's address is somebody else's.
    #[error("{cause}; {way_out}")]
    AddressInUse {
        /// What happened.
        cause: JoinError,
        /// What to do.
        way_out: &'static str,
    },
    /// The ranks of a split did not meet; the cause has their numbers in the new communicator.
    #[error("ranks {} were to be ranks 0 to {} of a new communicator: {cause}", Ranks(.members), .members.len().saturating_sub(1))]
    Split {
        /// Their numbers in the communicator that was split, in the order of the new ones.
        members: Vec<Rank>,
        /// What happened.
        cause: Box<CreateError>,
    },
    /// The communicator that was to be split has failed, or a rank has ended with which another was to meet.
    #[error(transparent)]
    Call(#[from] crate::Error),
    /// A leader's address came in no form that can be read.
    #[error("{0}")]
    Address(String),
    /// The topology file cannot be used.
    #[error("topology file {path}: {reason}")]
    Topology {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The tuning file cannot be used.
    #[error(transparent)]
    Tuning(#[from] TunedError),
    /// A pinned algorithm is not there, or cannot do what it is pinned for.
    #[error(transparent)]
    Pin(#[from] Box<PinError>),
    /// The machine has no room for the communicator's buffers.
    #[error("no memory for the communicator's buffers: {0}")]
    Memory(String),
    /// The system refused a thread or a descriptor.
    #[error("the system refused a thread: {0}")]
    System(#[from] io::Error),
}

/// The sentence, since that is what a `main` that returns the error shows.
impl fmt::Debug for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a communicator is assembled from.
pub(super) struct Parts {
    pub rank: Rank,
    pub world: usize,
    pub endpoint: Endpoint,
    pub control: Arc<dyn Control>,
    pub watch: Arc<Watch>,
    pub settings: Settings,
    pub topology: Topology,
    /// What joins the ranks of a host.
    pub local: LinkKind,
    /// How the ranks lie on hosts, as their wires were made for it.
    pub spread: Spread,
    pub facts: Facts,
    pub first: u64,
}

impl Communicator {
    /// The communicator of this process's job, from the variables that `hcomm launch`, torchrun, srun or mpirun set; a world
    /// of one where there are none. Settings come from `HCOMM_*`.
    ///
    /// # Errors
    /// Where a variable is malformed, or a rank does not come before the rendezvous deadline: it is named.
    pub fn from_env() -> Result<Communicator, CreateError> {
        let settings = Settings::from_env()?;
        let placement = Placement::from_env()?;
        Communicator::connect(&placement, settings)
    }

    /// The communicator of a placement made by hand.
    ///
    /// # Errors
    /// As [`Communicator::from_env`].
    pub fn connect(placement: &Placement, settings: Settings) -> Result<Communicator, CreateError> {
        Communicator::connect_with(placement, settings, None)
    }

    /// The same, where rank 0 may bring the listener at which the others find it, so that its address could be made known before. It is
    /// for the placement's address to say where it listens; what other ranks bring is closed.
    ///
    /// # Errors
    /// As [`Communicator::from_env`].
    pub fn connect_with(
        placement: &Placement,
        settings: Settings,
        listener: Option<TcpListener>,
    ) -> Result<Communicator, CreateError> {
        Communicator::connect_cancellable(placement, settings, listener, &Cancel::default())
    }

    /// The same, until `cancel` ends it from another thread: then its port is free at once, and the ranks that have come are told.
    ///
    /// # Errors
    /// As [`Communicator::from_env`], and where it was ended.
    pub fn connect_cancellable(
        placement: &Placement,
        settings: Settings,
        listener: Option<TcpListener>,
        cancel: &Cancel,
    ) -> Result<Communicator, CreateError> {
        let listener = listener.filter(|_| placement.rank == 0);
        // Rank 0's tuning is everybody's.
        let tuned = if placement.rank == 0 { tuned(&settings)? } else { Tuned::default() };
        Communicator::connect_at(placement, settings, Agreed::new(tuned), listener, cancel)
    }

    /// The same; rank 0 says what all go by, and may bring the listener at its address.
    pub(super) fn connect_at(
        placement: &Placement,
        settings: Settings,
        agreed: Agreed,
        listener: Option<TcpListener>,
        cancel: &Cancel,
    ) -> Result<Communicator, CreateError> {
        let watch = Watch::new(0);
        let call = Call { placement, settings: &settings, agreed, listener, cancel };
        let session = call.answer(&watch)?;
        let own = settings;
        let (settings, agreed) = Agreed::decode(&session.agreed.settings, &own)?;
        let log = Log::new(placement.rank, settings.debug);
        own.overruled(&settings).iter().for_each(|sentence| log.warn(sentence));
        if !agreed.is_split {
            summon::remarks(placement, &settings, &session).iter().for_each(|remark| remark.tell(&log));
        }
        let hosts = hosts_of(&session.roster, settings.transport);
        if let Some(warning) = shortage_ahead(&settings, &hosts, &session.roster, placement.rank) {
            log.warn(&warning);
        }
        let topology = crowded(topology_of(&settings, &hosts)?, &session.roster, agreed.quota);
        let links = session.roster.routes.iter().map(describe_route).collect();
        let is_crowded = is_crowded(&session.roster, placement.rank);
        let (address, token) = (met_at(&session, placement), token_of(&session));
        Communicator::assemble(Parts {
            rank: placement.rank,
            world: placement.world,
            endpoint: session.endpoint,
            control: Arc::from(session.control),
            watch,
            settings,
            topology,
            local: LinkKind::Shm,
            spread: Spread::of_hosts(&hosts),
            facts: Facts { is_crowded, links, hall: None, address, token, agreed: Arc::new(agreed) },
            first: 0,
        })
    }

    /// A world of one.
    ///
    /// # Panics
    /// Where the system has no thread left.
    pub fn alone() -> Communicator {
        let mut one = Communicator::in_process(1).expect("a world of one needs a thread and little memory");
        one.remove(0)
    }

    /// The communicators of `world` ranks that are threads of this process, in rank order; default settings.
    ///
    /// # Errors
    /// Where the world is empty or the machine has no room for it.
    pub fn in_process(world: usize) -> Result<Vec<Communicator>, CreateError> {
        Communicator::in_process_with(world, &Settings::default())
    }

    /// The same with given settings.
    ///
    /// # Errors
    /// Where the world is empty or the machine has no room for it.
    pub fn in_process_with(world: usize, settings: &Settings) -> Result<Vec<Communicator>, CreateError> {
        Communicator::in_process_from(world, settings, 0)
    }

    /// The same, by what has been agreed.
    pub(super) fn in_process_by(
        world: usize,
        settings: &Settings,
        agreed: Agreed,
    ) -> Result<Vec<Communicator>, CreateError> {
        Communicator::in_process_of(world, settings, agreed, 0)
    }

    /// The same, with call numbers that begin at `first`: for tests of their wrap.
    #[doc(hidden)]
    pub fn in_process_from(
        world: usize,
        settings: &Settings,
        first: u64,
    ) -> Result<Vec<Communicator>, CreateError> {
        let agreed = Agreed::new(tuned(settings)?);
        Communicator::in_process_of(world, settings, agreed, first)
    }

    fn in_process_of(
        world: usize,
        settings: &Settings,
        agreed: Agreed,
        first: u64,
    ) -> Result<Vec<Communicator>, CreateError> {
        if world == 0 {
            return Err(CreateError::EmptyWorld);
        }
        let spread = Spread::of_hosts(&vec![0; world]);
        let config = spread.wire(settings);
        let endpoints = inproc::mesh_from(world, config, first as u32)
            .map_err(|error| CreateError::Memory(error.to_string()))?;
        let watches: Vec<Arc<Watch>> = (0..world).map(|_| Watch::new(first)).collect();
        let handler = |watch: &Arc<Watch>| {
            let watch = watch.clone();
            Arc::new(move |event| watch.handle(event)) as control::Handler
        };
        let controls = control::inproc_mesh(watches.iter().map(handler).collect());
        let topology = topology_of(settings, &vec![0; world])?.with_crowd(world, usable_cores());
        let facts = Facts {
            is_crowded: world > usable_cores(),
            links: vec!["inproc".to_owned(); world],
            hall: Some(Hall::new()),
            address: Address::loopback(0),
            token: Token::derived(&["in process"]),
            agreed: Arc::new(agreed),
        };
        let parts = endpoints.into_iter().zip(controls).zip(watches).enumerate();
        parts
            .map(|(rank, ((endpoint, control), watch))| {
                Communicator::assemble(Parts {
                    rank,
                    world,
                    endpoint,
                    control: Arc::from(control),
                    watch,
                    settings: settings.clone(),
                    topology: topology.clone(),
                    local: LinkKind::Inproc,
                    spread,
                    facts: facts.clone(),
                    first,
                })
            })
            .collect()
    }

    pub(super) fn assemble(parts: Parts) -> Result<Communicator, CreateError> {
        let Parts { rank, world, endpoint, control, watch, settings, topology, local, spread, facts, first } =
            parts;
        let log = Log::new(rank, settings.debug);
        let planner = planner(topology, &settings, &facts.agreed, (local, spread)).map_err(Box::new)?;
        let message_bytes = endpoint.wires.iter().flatten().map(|wire| message_bytes(wire, &settings)).min();
        let peers = Peers::new(rank, world, control.clone(), watch.clone(), log.clone());
        let recorder = Recorder::new(settings.trace_events as usize).map_err(|_| {
            CreateError::Memory(format!("HCOMM_TRACE_EVENTS asks for {} of them", settings.trace_events))
        })?;
        let stall = settings.stall_warning;
        let limits = Limits {
            deadline: settings.deadline,
            stall_warning: if stall.is_zero() { Duration::MAX } else { stall },
        };
        let patience = patience(&settings, &facts);
        let ringer = endpoint.doorbell.ringer();
        let heap = endpoint.heap.clone();
        let core = Core::new(endpoint, peers, recorder, limits, first);
        let domain = Arc::new(Domain::new(core, watch.clone(), patience));
        let driver = domain.spawn_driver(&settings.driver_cpus)?;
        let roused = Arc::downgrade(&domain);
        let rouse = Box::new(move || {
            if let Some(domain) = roused.upgrade() {
                domain.rouse();
            }
        });
        watch.connect(control.clone(), ringer, rouse);
        let link = Link::slowest(&planner, &facts.agreed.tuned.tuning, local);
        let cache = PlanCache::new(planner, rank, message_bytes.unwrap_or(1 << 20));
        let closing = Closing::new(rank, (&domain, control, driver), &settings, &log);
        let inner = Inner {
            rank,
            world,
            domain,
            heap,
            cache,
            settings,
            facts,
            link,
            log,
            closing: Arc::new(closing),
        };
        inner.introduce();
        Ok(Communicator { inner: Arc::new(inner), options: Options::default() })
    }
}

/// Rank 0's tuning. The user is told of a file that cannot be used although it lies at the usual place.
pub(super) fn tuned(settings: &Settings) -> Result<Tuned, CreateError> {
    let tuned = Tuned::load(&settings.tuning)?;
    tuned.fault.iter().for_each(|fault| Log::new(0, settings.debug).warn(fault));
    Ok(tuned)
}

/// The dimensions of all wires, equal on all ranks.
pub(super) fn wires_of(settings: &Settings, roster: &Roster) -> Dimensions {
    let wire = Spread::of_hosts(&hosts_of(roster, settings.transport)).wire(settings);
    let link_bytes_per_s = Some(settings.link_rate.bytes_per_s).filter(|rate| *rate > 0);
    let inflight_bytes = match settings.inflight_bytes.0 {
        0 => link_bytes_per_s.map_or(DEFAULT_INFLIGHT_BYTES, |rate| rate / 250),
        bytes => bytes,
    };
    let inflight_bytes = inflight_bytes.max(2 * wire.slot_bytes as u64) as usize;
    Dimensions { wire, tcp: TcpOptions { inflight_bytes, link_bytes_per_s, silence: settings.heartbeat } }
}

/// What 10 Gbit/s carry in about 200 us.
const DEFAULT_INFLIGHT_BYTES: u64 = 256 << 10;

fn describe_route(route: &Option<Route>) -> String {
    match route {
        None => "self".to_owned(),
        Some(Route::Shm) => "shm".to_owned(),
        Some(Route::Tcp { why_not_shm }) => format!("tcp ({why_not_shm})"),
    }
}

/// The largest message of a tile.
fn message_bytes(wire: &hcomm_transports::AnyWire, settings: &Settings) -> usize {
    use hcomm_transports::Wire;
    tuning::message_bytes(settings, wire.config().slot_bytes)
}

/// How long to try before sleeping: next to nothing where the machine has more ranks than cores.
fn patience(settings: &Settings, facts: &Facts) -> Patience {
    if facts.is_crowded {
        return Patience { spins: 4, yields: 100 };
    }
    // A spin of `pause` with a look at the wires takes some tens of nanoseconds. A yield takes a few hundred where nobody else wants
    // the processor; where somebody does, it is what gets the peer to run.
    let spins = u32::try_from(settings.spin.as_nanos() / 40).unwrap_or(u32::MAX / 2);
    Patience { spins, yields: 500 }
}
