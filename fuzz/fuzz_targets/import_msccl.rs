//! Any text as an MSCCL file. Nothing panics; what is taken is proved, survives being written as JSON and, where MSCCL can express it, as XML,
//! and what is refused says why.

#![no_main]

use hcomm_planner::export::{json, to_msccl};
use hcomm_planner::{Plan, verify};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match Plan::from_msccl(&text) {
        Ok(plans) => check_taken(&plans),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});

fn check_taken(plans: &[Plan]) {
    verify(plans, 2).expect("an imported plan is proved");
    assert!(plans.iter().enumerate().all(|(rank, plan)| plan.rank == rank && plan.id == plans[0].id));
    assert_eq!(json::read(&json::write(plans)).expect("what was written"), plans);
    if let Ok(text) = to_msccl(plans) {
        let again = Plan::from_msccl(&text).expect("what was written");
        assert_eq!(
            (again.len(), again[0].overlay, again[0].bytes),
            (plans.len(), plans[0].overlay, plans[0].bytes)
        );
    }
}
