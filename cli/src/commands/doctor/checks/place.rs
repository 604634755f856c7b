//! Who this process would be, and which settings it would have.

use hcomm::environment::{Placement, Secret};
use hcomm::meeting;
use hcomm::settings::{Settings, TABLE};

use super::Finding;

/// The launcher's variables and the settings.
pub fn check(settings: &Settings) -> Vec<Finding> {
    let mut findings = match Placement::from_env() {
        Ok(place) => vec![placement(&place), secret(&place)],
        Err(error) => vec![misplaced(&error.to_string())],
    };
    findings.push(changed(settings));
    findings
}

fn placement(place: &Placement) -> Finding {
    let Placement { rank, world, source, address, .. } = place;
    let detail = match (world, address.port) {
        (1, _) => format!("a world of one ({source})"),
        (_, 0) => format!("rank {rank} of {world} ({source}), rank 0 at a free port of {}", address.host),
        _ => format!("rank {rank} of {world} ({source}), rank 0 at {address}"),
    };
    Finding::ok("placement", detail)
}

fn misplaced(error: &str) -> Finding {
    let advice = "set the variable, or start the program with `hcomm launch -n N -- PROGRAM`";
    Finding::no("placement", error, advice).needed()
}

/// What keeps others out of the job.
fn secret(place: &Placement) -> Finding {
    match &place.secret {
        _ if place.world == 1 => Finding::ok("job secret", "a world of one needs none"),
        Secret::Given(_) => Finding::ok("job secret", format!("handed over ({})", place.source)),
        Secret::Left(_) => match meeting::folder() {
            Ok(folder) => {
                let folder = folder.display();
                Finding::ok(
                    "job secret",
                    format!("rank 0 leaves it in {folder}, which only this user can enter"),
                )
            }
            Err(error) => Finding::no("job secret", error.to_string(), TOKEN).needed(),
        },
        Secret::Public(_) => {
            let detail = format!(
                "none: {} hands none over between hosts, so the job is open to its network: whoever reaches {} could join it",
                place.source, place.address
            );
            Finding::part("job secret", detail, TOKEN)
        }
    }
}

const TOKEN: &str = "set HCOMM_TOKEN to the same 64 hexadecimal digits on all ranks (`openssl rand -hex 32`)";

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
