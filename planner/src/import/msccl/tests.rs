//! placeholder
#[test]
fn shared_files() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/msccl");
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let start = std::time::Instant::now();
        match super::import(&text) {
            Ok(plans) => println!(
                "{path:?} {:?} buffered {} {} nodes {:?}",
                plans[0].overlay,
                plans[0].buffered,
                plans.iter().map(|p| p.nodes.len()).sum::<usize>(),
                start.elapsed()
            ),
            Err(e) => println!("{path:?} {e}"),
        }
    }
}
