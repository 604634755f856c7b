//! The findings as a table for people and as JSON for programs.

use serde_json::json;

use super::finding::{Finding, State, is_usable};

/// A line per finding, a second one where there is something to do, and the verdict.
pub fn table(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.subject.len()).max().unwrap_or(0);
    let mut lines: Vec<String> = findings.iter().flat_map(|finding| rows(finding, width)).collect();
    lines.push(String::new());
    lines.push(verdict(findings));
    lines.join("\n")
}

/// `{"usable": bool, "findings": [{"subject", "state", "needed", "detail", "advice"}]}`.
pub fn json(findings: &[Finding]) -> String {
    let rows: Vec<_> = findings
        .iter()
        .map(|finding| {
            json!({
                "subject": finding.subject,
                "state": finding.state.word(),
                "needed": finding.is_needed,
                "detail": finding.detail,
                "advice": finding.advice,
            })
        })
        .collect();
    json!({ "usable": is_usable(findings), "findings": rows }).to_string()
}

fn rows(finding: &Finding, width: usize) -> Vec<String> {
    let mut rows =
        vec![format!("{:<4}  {:<width$}  {}", finding.state.word(), finding.subject, finding.detail)];
    if !finding.advice.is_empty() {
        rows.push(format!("{:<4}  {:<width$}  -> {}", "", "", finding.advice));
    }
    rows
}

fn verdict(findings: &[Finding]) -> String {
    let is_missing = |finding: &&Finding| finding.is_needed && finding.state == State::No;
    let missing: Vec<&str> = findings.iter().filter(is_missing).map(|finding| finding.subject).collect();
    match missing.as_slice() {
        [] => "A communicator can be made on this machine.".to_owned(),
        missing => format!("No communicator can be made on this machine without: {}.", missing.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_reports_say_what_is_missing_and_what_to_do() {
        let findings =
            [Finding::ok("cores", "4"), Finding::no("loopback TCP", "refused", "bring lo up").needed()];
        let text = table(&findings);
        assert_eq!(
            text,
            "ok    cores         4\n\
             no    loopback TCP  refused\n                    -> bring lo up\n\n\
             No communicator can be made on this machine without: loopback TCP."
        );
        let value: serde_json::Value = serde_json::from_str(&json(&findings)).expect("it is JSON");
        assert_eq!(value["usable"], false);
        assert_eq!(value["findings"][1]["advice"], "bring lo up");
    }
}
