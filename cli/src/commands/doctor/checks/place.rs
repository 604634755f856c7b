//! Who this process would be, and which settings it would have.

use hcomm::environment::Placement;
use hcomm::settings::{Settings, TABLE};

use super::Finding;

/// The launcher's variables and the settings.
pub fn check(settings: &Settings) -> Vec<Finding> {
    vec![placement(), changed(settings)]
}

fn placement() -> Finding {
    match Placement::from_env() {
        Ok(place) if place.world == 1 => {
            Finding::ok("placement", format!("a world of one ({})", place.source))
        }
        Ok(place) => {
            let (rank, world, source, address) = (place.rank, place.world, place.source, place.address);
            Finding::ok("placement", format!("rank {rank} of {world} ({source}), rank 0 at {address}"))
        }
        Err(error) => Finding::no(
            "placement",
            error.to_string(),
            "set the variable, or start the program with `hcomm launch -n N -- PROGRAM`",
        )
        .needed(),
    }
}

fn changed(settings: &Settings) -> Finding {
    let default = Settings::default();
    let changed = TABLE.iter().filter(|entry| entry.show(settings) != entry.show(&default));
    let texts: Vec<String> =
        changed.map(|entry| format!("{}={}", entry.name, entry.show(settings))).collect();
    match texts.as_slice() {
        [] => Finding::ok("settings", "all at their defaults"),
        texts => Finding::ok("settings", texts.join(" ")),
    }
}
