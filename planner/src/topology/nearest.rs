//! [`Fabric`]: the links inside one host, to find the NIC nearest to a GPU or a socket.

use petgraph::algo::dijkstra;
use petgraph::graph::{NodeIndex, UnGraph};

use super::file::{HostFile, TopologyError, listed};

/// Latency of the link between a device and its socket, in microseconds.
const DEVICE_US: f64 = 1.0;
/// Latency between two sockets, in microseconds.
const SOCKET_US: f64 = 2.0;

/// Sockets, GPUs and NICs of a host, joined by links weighted with their latency.
pub(super) struct Fabric {
    links: UnGraph<(), f64>,
    sockets: usize,
    gpus: usize,
    nics: usize,
}

impl Fabric {
    /// The host's links: the ones it lists, and those of its sockets.
    pub fn new(host: &HostFile) -> Result<Fabric, TopologyError> {
        let (sockets, gpus, nics) = (host.sockets as usize, host.gpus.len(), host.nics.len());
        let mut links = UnGraph::default();
        let nodes: Vec<_> = (0..sockets + gpus + nics).map(|_| links.add_node(())).collect();
        for socket in 1..sockets {
            (0..socket).for_each(|other| {
                links.add_edge(nodes[socket], nodes[other], SOCKET_US);
            });
        }
        let devices = || host.gpus.iter().chain(&host.nics);
        for (i, device) in devices().enumerate() {
            links.add_edge(nodes[sockets + i], nodes[device.socket as usize], DEVICE_US);
        }
        for link in &host.links {
            let end = |name: &String| {
                devices().position(|d| d.name == *name).map(|i| nodes[sockets + i]).ok_or_else(|| {
                    TopologyError::Unknown {
                        by: "a link".to_owned(),
                        host: host.name.clone(),
                        what: "device",
                        name: name.clone(),
                        known: listed(devices().map(|d| d.name.as_str())),
                    }
                })
            };
            let (a, b) = (end(&link.between[0])?, end(&link.between[1])?);
            if !(link.us >= 0.0 && link.us.is_finite()) {
                let [a, b] = link.between.clone();
                return Err(TopologyError::Latency { a, b, host: host.name.clone(), us: link.us });
            }
            links.add_edge(a, b, link.us);
        }
        Ok(Fabric { links, sockets, gpus, nics })
    }

    /// The NIC at the least latency from a GPU (or, without one, from a socket); the lowest number among equals.
    pub fn nearest_nic(&self, gpu: Option<usize>, socket: u32) -> Option<usize> {
        let start = gpu.map_or(socket as usize, |gpu| self.sockets + gpu);
        let far = dijkstra(&self.links, NodeIndex::new(start), None, |link| *link.weight());
        let latency = |nic: &usize| {
            far.get(&NodeIndex::new(self.sockets + self.gpus + nic)).copied().unwrap_or(f64::INFINITY)
        };
        (0..self.nics).min_by(|a, b| latency(a).total_cmp(&latency(b)))
    }
}

#[cfg(test)]
mod tests {
    use crate::topology::Topology;

    #[test]
    fn a_shared_switch_beats_the_socket() {
        let text = |links: &str| {
            format!(
                r#"{{"hosts":[{{"name":"a","sockets":2,"ranks":[{{"rank":0,"gpu":"g0"}},{{"rank":1,"gpu":"g1"}}],
                "gpus":[{{"name":"g0"}},{{"name":"g1","socket":1}}],
                "nics":[{{"name":"n0"}},{{"name":"n1","socket":1}}],"links":[{links}]}}]}}"#
            )
        };
        let nics = |links: &str| {
            let topology = Topology::parse(&text(links)).expect("a good file");
            [topology.place(0).nic, topology.place(1).nic]
        };
        assert_eq!(nics(""), [Some(0), Some(1)]);
        assert_eq!(nics(r#"{"between":["g0","n1"],"us":0.5}"#), [Some(1), Some(1)]);
    }
}
