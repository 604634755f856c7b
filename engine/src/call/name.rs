//! Which call it is: in words for people, and as a hash that every message carries.

use hcomm_planner::{Plan, Request};

/// Which call it is, in words.
pub(super) fn describe(request: &Request) -> String {
    use hcomm_planner::request::Counts;
    let mut words = vec![request.dtype.to_string()];
    if request.collective.reduces() {
        words.push(request.op.to_string());
    }
    words.push(match &request.counts {
        Counts::Even(count) => count.to_string(),
        Counts::Listed(counts) => format!("counts {counts:?}"),
        Counts::Local { .. } => "own counts".to_owned(),
    });
    if request.collective.is_rooted() {
        words.push(format!("root {}", request.root));
    }
    if request.deterministic {
        words.push("deterministic".to_owned());
    }
    if let Some(algorithm) = &request.algorithm {
        words.push(format!("algorithm {algorithm}"));
    }
    format!("{}({})", request.collective, words.join(", "))
}

/// FNV-1a over what all ranks know of the call, folded to 32 bits. A fixed function: it crosses machines.
pub(super) fn fingerprint(request: &Request, plan: &Plan, tile_bytes: u64) -> u32 {
    use hcomm_planner::request::Counts;
    let mut hash = Fnv::new();
    hash.add(request.collective.name().as_bytes());
    hash.add(request.dtype.name().as_bytes());
    if request.collective.reduces() {
        hash.add(request.op.to_string().as_bytes());
    }
    hash.add(&(request.root as u64).to_le_bytes());
    match &request.counts {
        Counts::Even(count) => hash.add(&count.to_le_bytes()),
        Counts::Listed(counts) => counts.iter().for_each(|c| hash.add(&c.to_le_bytes())),
        Counts::Local { .. } => hash.add(b"local"),
    }
    hash.add(&plan.id.to_le_bytes());
    hash.add(&tile_bytes.to_le_bytes());
    hash.finish()
}

/// 64-bit FNV-1a.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        // The length first, so that neighbouring fields cannot trade bytes.
        for byte in (bytes.len() as u32).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn finish(&self) -> u32 {
        (self.0 ^ (self.0 >> 32)) as u32
    }
}
