//! The variables that Kubernetes sets in every pod for each service of its namespace. For services called `hcomm` or `hcomm-...` they begin as
//! hcomm's own do: `HCOMM_SERVICE_HOST=10.0.0.7`, `HCOMM_PORT=tcp://10.0.0.7:80`, `HCOMM_PORT_80_TCP_ADDR=10.0.0.7`.

/// Whether a variable describes a service.
pub fn is_service_link(name: &str, value: &str) -> bool {
    is_host_or_port(name)
        || is_address(value) && (name.ends_with("_PORT") || has_numbered_port(name))
        || has_detail(name)
}

/// Whether a value is a service's address, as of `HCOMM_PORT`, which hcomm itself reads as a number.
pub(super) fn is_address(value: &str) -> bool {
    PROTOCOLS.iter().any(|protocol| {
        let rest = value.get(..protocol.len()).filter(|start| start.eq_ignore_ascii_case(protocol));
        rest.is_some() && value[protocol.len()..].starts_with("://")
    })
}

const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// `..._SERVICE_HOST`, `..._SERVICE_PORT` and `..._SERVICE_PORT_NAME`.
fn is_host_or_port(name: &str) -> bool {
    name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT") || name.contains("_SERVICE_PORT_")
}

/// `..._PORT_80_TCP`.
fn has_numbered_port(name: &str) -> bool {
    let Some((rest, protocol)) = name.rsplit_once('_') else { return false };
    let Some((rest, port)) = rest.rsplit_once('_') else { return false };
    PROTOCOLS.contains(&protocol) && rest.ends_with("_PORT") && port.parse::<u16>().is_ok()
}

/// `..._PORT_80_TCP_PROTO` and its kin.
fn has_detail(name: &str) -> bool {
    let (rest, detail) = name.rsplit_once('_').unwrap_or_default();
    ["PROTO", "PORT", "ADDR"].contains(&detail) && has_numbered_port(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubernetes_sets_is_known_and_slips_are_not() {
        let links = [
            ("HCOMM_SERVICE_HOST", "10.0.0.7"),
            ("HCOMM_SERVICE_PORT", "80"),
            ("HCOMM_SERVICE_PORT_GRPC", "80"),
            ("HCOMM_PORT", "tcp://10.0.0.7:80"),
            ("HCOMM_PORT_80_TCP", "tcp://10.0.0.7:80"),
            ("HCOMM_PORT_80_TCP_PROTO", "tcp"),
            ("HCOMM_PORT_80_TCP_PORT", "80"),
            ("HCOMM_PORT_80_TCP_ADDR", "10.0.0.7"),
            ("HCOMM_PORT_53_UDP_ADDR", "fd00::7"),
            ("HCOMM_MASTER_SERVICE_HOST", "10.0.0.7"),
            ("HCOMM_MASTER_PORT", "udp://10.0.0.7:80"),
        ];
        for (name, value) in links {
            assert!(is_service_link(name, value), "{name}={value}");
        }
        let slips = [
            ("HCOMM_DEPHT", "2"),
            ("HCOMM_PROT", "4000"),
            ("HCOMM_PORT_X_TCP", "tcp://10.0.0.7:80"),
            ("HCOMM_SERVICE", "x"),
            ("HCOMM_MASTER_PORT", "4000"),
            ("HCOMM_ADDR", "tcp://10.0.0.7:80"),
            ("é_PORT", "é"),
        ];
        for (name, value) in slips {
            assert!(!is_service_link(name, value), "{name}={value}");
        }
    }
}
