//! The file format of a topology (JSON) and its parser.

use std::collections::HashMap;

use hcomm_ops::Rank;
use serde::{Deserialize, Serialize};

use super::nearest::Fabric;
use super::{Device, Place, Topology};
use crate::import::without_mark;
use crate::plan::{EXPECTED_NAME, check_name};

/// Most sockets of a host.
const MAX_SOCKETS: u32 = 256;

/// Most GPUs and NICs of a host.
const MAX_DEVICES: usize = 1024;

/// A topology as written by hand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyFile {
    /// The hosts, in the order of their numbers.
    pub hosts: Vec<HostFile>,
}

/// One host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostFile {
    /// Its name, unique.
    pub name: String,
    /// Processor sockets; 1 if left out.
    #[serde(default = "one")]
    pub sockets: u32,
    /// Processors that its ranks may use; enough for all of them if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<std::num::NonZeroUsize>,
    /// The ranks that run on it.
    pub ranks: Vec<RankFile>,
    /// Its GPUs.
    #[serde(default)]
    pub gpus: Vec<DeviceFile>,
    /// Its NICs.
    #[serde(default)]
    pub nics: Vec<DeviceFile>,
    /// Links beside the ones that follow from the sockets: every device is linked to its socket, and every
    /// two sockets to one another.
    #[serde(default)]
    pub links: Vec<LinkFile>,
}

/// One rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankFile {
    /// Its number.
    pub rank: Rank,
    /// Its processor socket; that of its GPU, or 0, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<u32>,
    /// The GPU that its buffers are on, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
}

/// One GPU or NIC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFile {
    /// Its name, unique within the host.
    pub name: String,
    /// The processor socket it hangs off; 0 if left out.
    #[serde(default)]
    pub socket: u32,
}

/// A link between two devices of a host, such as a switch that a GPU and a NIC share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkFile {
    /// The names of its two ends.
    pub between: [String; 2],
    /// Latency in microseconds; what "nearest" adds up.
    pub us: f64,
}

/// Why a topology is refused; the text names the offending entry.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// No JSON, or an unknown, missing or ill-typed field.
    #[error("topology file: {0}")]
    Syntax(#[from] serde_json::Error),
    /// Two things of one name or number.
    #[error("{what} '{name}' occurs twice {place}; expected distinct ones")]
    Duplicate {
        /// "host", "device" or "rank".
        what: &'static str,
        /// The name or number.
        name: String,
        /// Where, in words.
        place: String,
    },
    /// A name that nothing on the host has.
    #[error("{by} on host '{host}' names {what} '{name}', which is not there; expected one of: {known}")]
    Unknown {
        /// Who names it.
        by: String,
        /// The host.
        host: String,
        /// "gpu" or "device".
        what: &'static str,
        /// The unknown name.
        name: String,
        /// What there is.
        known: String,
    },
    /// A socket that the host does not have.
    #[error("{by} on host '{host}' is on socket {socket}; expected one below {sockets}")]
    Socket {
        /// Whose socket.
        by: String,
        /// The host.
        host: String,
        /// The socket given.
        socket: u32,
        /// Sockets of the host.
        sockets: u32,
    },
    /// Ranks that are not 0 up to the world size.
    #[error("rank {missing} is missing; expected ranks 0 to {last}, each once", last = world - 1)]
    MissingRank {
        /// The lowest rank that no host has.
        missing: Rank,
        /// Ranks listed.
        world: usize,
    },
    /// A host that nothing runs on.
    #[error("host '{host}' has no ranks; expected at least one, or no such host")]
    IdleHost {
        /// The host.
        host: String,
    },
    /// More sockets or devices than a host has, or no sockets.
    #[error("host '{host}' has {given} {what}; expected {expected}")]
    Number {
        /// The host.
        host: String,
        /// "sockets" or "devices".
        what: &'static str,
        /// How many are given.
        given: usize,
        /// In words.
        expected: &'static str,
    },
    /// A name that cannot be shown.
    #[error("a {what} is named {shown}; expected {EXPECTED_NAME}")]
    Name {
        /// "host" or "device".
        what: &'static str,
        /// As much of it as can be shown.
        shown: String,
    },
    /// No ranks at all.
    #[error("the topology has no ranks; expected at least one")]
    Empty,
    /// A latency that is no time.
    #[error(
        "the link between '{a}' and '{b}' on host '{host}' takes {us} us; expected a number of at least 0"
    )]
    Latency {
        /// One end.
        a: String,
        /// The other.
        b: String,
        /// The host.
        host: String,
        /// The latency given.
        us: f64,
    },
}

fn one() -> u32 {
    1
}

impl Topology {
    /// Parses the JSON text of a [`TopologyFile`].
    ///
    /// # Errors
    /// [`TopologyError`] names the entry that is unknown, missing or there twice.
    pub fn parse(text: &str) -> Result<Topology, TopologyError> {
        Topology::from_file(&serde_json::from_str(without_mark(text))?)
    }

    /// Checks and numbers what a file says.
    ///
    /// # Errors
    /// As [`Topology::parse`].
    pub fn from_file(file: &TopologyFile) -> Result<Topology, TopologyError> {
        file.hosts.iter().try_for_each(|host| named("host", &host.name))?;
        distinct("host", file.hosts.iter().map(|h| h.name.clone()), "in the file")?;
        let mut reading = Reading::default();
        for (number, host) in file.hosts.iter().enumerate() {
            reading.add_host(number, host)?;
        }
        let places = reading.places_in_order()?;
        let names = file.hosts.iter().map(|h| h.name.clone()).collect();
        let topology = Topology::assemble(names, places, reading.gpus, reading.nics);
        let crowds = file.hosts.iter().filter_map(|host| Some((host.ranks.len(), host.processors?.get())));
        Ok(crowds.fold(topology, |topology, (ranks, processors)| topology.with_crowd(ranks, processors)))
    }
}

/// What has been read so far.
#[derive(Default)]
struct Reading {
    places: Vec<(Rank, Place)>,
    gpus: Vec<Device>,
    nics: Vec<Device>,
}

impl Reading {
    fn add_host(&mut self, number: usize, host: &HostFile) -> Result<(), TopologyError> {
        check_numbers(host)?;
        let devices = || host.gpus.iter().chain(&host.nics);
        devices().try_for_each(|device| named("device", &device.name))?;
        distinct("device", devices().map(|d| d.name.clone()), &format!("on host '{}'", host.name))?;
        for device in devices() {
            check_socket(host, &format!("device '{}'", device.name), device.socket)?;
        }
        let (first_gpu, first_nic) = (self.gpus.len() as u32, self.nics.len() as u32);
        let fabric = Fabric::new(host)?;
        let device = |d: &DeviceFile| Device { name: d.name.clone(), host: number, socket: d.socket };
        self.gpus.extend(host.gpus.iter().map(device));
        self.nics.extend(host.nics.iter().map(device));
        let mut nearest = HashMap::new();
        for rank in &host.ranks {
            let by = format!("rank {}", rank.rank);
            let gpu = rank.gpu.as_ref().map(|name| gpu_of(host, &by, name)).transpose()?;
            let gpu_socket = gpu.map_or(0, |gpu| host.gpus[gpu].socket);
            let socket = rank.socket.unwrap_or(gpu_socket);
            check_socket(host, &by, socket)?;
            let nic = *nearest.entry((gpu, socket)).or_insert_with(|| fabric.nearest_nic(gpu, socket));
            let nic = nic.map(|nic: usize| first_nic + nic as u32);
            let gpu = gpu.map(|gpu| first_gpu + gpu as u32);
            self.places.push((rank.rank, Place { host: number, socket, gpu, nic }));
        }
        Ok(())
    }

    fn places_in_order(&mut self) -> Result<Vec<Place>, TopologyError> {
        distinct("rank", self.places.iter().map(|(rank, _)| rank.to_string()), "in the file")?;
        let world = self.places.len();
        if world == 0 {
            return Err(TopologyError::Empty);
        }
        self.places.sort_unstable_by_key(|(rank, _)| *rank);
        match self.places.iter().enumerate().find(|(i, (rank, _))| i != rank) {
            Some((missing, _)) => Err(TopologyError::MissingRank { missing, world }),
            None => Ok(self.places.iter().map(|(_, place)| *place).collect()),
        }
    }
}

fn named(what: &'static str, name: &str) -> Result<(), TopologyError> {
    check_name(name).map_err(|shown| TopologyError::Name { what, shown })
}

/// What a host has is within reason: every two of its sockets are linked, and for every GPU the nearest NIC is looked for.
fn check_numbers(host: &HostFile) -> Result<(), TopologyError> {
    let devices = host.gpus.len() + host.nics.len();
    let number =
        |what, given, expected| Err(TopologyError::Number { host: host.name.clone(), what, given, expected });
    match (host.sockets, devices) {
        (1..=MAX_SOCKETS, 0..=MAX_DEVICES) if host.ranks.is_empty() => {
            Err(TopologyError::IdleHost { host: host.name.clone() })
        }
        (1..=MAX_SOCKETS, 0..=MAX_DEVICES) => Ok(()),
        (1..=MAX_SOCKETS, _) => number("devices", devices, "at most 1024"),
        (sockets, _) => number("sockets", sockets as usize, "1 to 256"),
    }
}

fn distinct(
    what: &'static str,
    names: impl Iterator<Item = String>,
    place: &str,
) -> Result<(), TopologyError> {
    let mut seen = HashMap::new();
    for name in names {
        if seen.insert(name.clone(), ()).is_some() {
            return Err(TopologyError::Duplicate { what, name, place: place.to_owned() });
        }
    }
    Ok(())
}

fn gpu_of(host: &HostFile, by: &str, name: &str) -> Result<usize, TopologyError> {
    host.gpus.iter().position(|gpu| gpu.name == name).ok_or_else(|| TopologyError::Unknown {
        by: by.to_owned(),
        host: host.name.clone(),
        what: "gpu",
        name: name.to_owned(),
        known: listed(host.gpus.iter().map(|gpu| gpu.name.as_str())),
    })
}

/// Names in a sentence.
pub(super) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names = names.collect::<Vec<_>>().join(", ");
    if names.is_empty() { "(none)".to_owned() } else { names }
}

fn check_socket(host: &HostFile, by: &str, socket: u32) -> Result<(), TopologyError> {
    if socket < host.sockets {
        return Ok(());
    }
    let (by, host, sockets) = (by.to_owned(), host.name.clone(), host.sockets);
    Err(TopologyError::Socket { by, host, socket, sockets })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, expected: &str) {
        let error = Topology::parse(text).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
    }

    #[test]
    fn errors_name_the_entry() {
        refused("{", "topology file: EOF");
        refused(r#"{"hosts":[{"name":"a","ranks":[],"gpu":[]}]}"#, "unknown field `gpu`");
        refused(r#"{"hosts":[{"ranks":[]}]}"#, "missing field `name`");
        refused(r#"{"hosts":[]}"#, "no ranks");
        refused(
            r#"{"hosts":[{"name":"a","ranks":[{"rank":0}]},{"name":"b","ranks":[]}]}"#,
            "host 'b' has no ranks",
        );
        refused(r#"{"hosts":[{"name":"a\u001b","ranks":[]}]}"#, "host is named \"a\\u{1b}\"");
        let host = |body: &str| format!(r#"{{"hosts":[{{"name":"a",{body}}}]}}"#);
        refused(&host(r#""ranks":[{"rank":0},{"rank":0}]"#), "rank '0' occurs twice");
        refused(&host(r#""ranks":[{"rank":0},{"rank":2}]"#), "rank 1 is missing");
        refused(&host(r#""ranks":[{"rank":0,"gpu":"g"}]"#), "rank 0 on host 'a' names gpu 'g'");
        refused(&host(r#""ranks":[{"rank":0,"socket":3}]"#), "socket 3; expected one below 1");
        refused(
            &host(r#""sockets":257,"ranks":[{"rank":0}]"#),
            "host 'a' has 257 sockets; expected 1 to 256",
        );
        refused(&host(r#""sockets":0,"ranks":[{"rank":0}]"#), "has 0 sockets");
        let twice = r#""ranks":[{"rank":0}],"gpus":[{"name":"x"}],"nics":[{"name":"x"}]"#;
        refused(&host(twice), "device 'x' occurs twice on host 'a'");
        let link = r#""ranks":[{"rank":0}],"nics":[{"name":"n"}],"links":[{"between":["n","q"],"us":1}]"#;
        refused(&host(link), "names device 'q'");
        let negative =
            r#""ranks":[{"rank":0}],"nics":[{"name":"n"}],"links":[{"between":["n","n"],"us":-1}]"#;
        refused(&host(negative), "takes -1 us");
        refused(r#"{"hosts":[{"name":"a","ranks":[]},{"name":"a","ranks":[]}]}"#, "host 'a' occurs twice");
    }

    #[test]
    fn ranks_may_be_in_any_order() {
        let text =
            r#"{"hosts":[{"name":"b","ranks":[{"rank":1}]},{"name":"a","ranks":[{"rank":0},{"rank":2}]}]}"#;
        let topology = Topology::parse(text).expect("a good file");
        assert_eq!(topology.members(1), [0, 2]);
        assert_eq!(topology.place(1).host, 0);
    }
}
