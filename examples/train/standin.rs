//! A development stand-in for the library: a star of sockets around rank 0 and one thread per rank.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::Outcome;

pub enum ReduceOp {
    Sum,
    Min,
    Max,
}

pub struct Communicator {
    rank: usize,
    world: usize,
    jobs: Sender<(Vec<f32>, ReduceOp, Sender<Vec<f32>>)>,
}

pub struct Work<B> {
    result: Receiver<B>,
}

impl Work<Vec<f32>> {
    pub fn priority(self, _: i32) -> Self {
        self
    }
    pub fn wait(self) -> Outcome<Vec<f32>> {
        self.result.recv().map_err(|_| "a peer is gone".into())
    }
}

impl Communicator {
    pub fn from_env() -> Outcome<Communicator> {
        let var = |name| std::env::var(name).map_err(|_| format!("{name} is not set"));
        let (rank, world): (usize, usize) = (var("HCOMM_RANK")?.parse()?, var("HCOMM_WORLD")?.parse()?);
        let address = var("HCOMM_ADDRESS")?;
        let rate = std::env::var("HCOMM_LINK_RATE").ok().map(|r| r.parse::<f64>()).transpose()?;
        let mut peers = Vec::new();
        if rank == 0 {
            let listener = TcpListener::bind(&address)?;
            for _ in 1..world {
                let (mut stream, _) = listener.accept()?;
                let mut who = [0];
                stream.read_exact(&mut who)?;
                stream.set_nodelay(true)?;
                peers.push((who[0], stream));
            }
            peers.sort_by_key(|p| p.0);
        } else {
            let begun = Instant::now();
            let mut stream = loop {
                match TcpStream::connect(&address) {
                    Ok(stream) => break stream,
                    Err(_) if begun.elapsed() < Duration::from_secs(10) => {
                        std::thread::sleep(Duration::from_millis(5))
                    }
                    Err(error) => return Err(error.into()),
                }
            };
            stream.set_nodelay(true)?;
            stream.write_all(&[rank as u8])?;
            peers.push((0, stream));
        }
        let (jobs, queue) = channel::<(Vec<f32>, ReduceOp, Sender<Vec<f32>>)>();
        std::thread::spawn(move || {
            let _ = drive(rank, world, rate, peers.into_iter().map(|p| p.1).collect(), queue);
        });
        Ok(Communicator { rank, world, jobs })
    }
    pub fn rank(&self) -> usize {
        self.rank
    }
    pub fn world(&self) -> usize {
        self.world
    }
    pub fn all_reduce_async(&self, values: Vec<f32>, op: ReduceOp) -> Work<Vec<f32>> {
        let (done, result) = channel();
        let _ = self.jobs.send((values, op, done));
        Work { result }
    }
    pub fn all_reduce(&self, values: &mut Vec<u64>, op: ReduceOp) -> Outcome<()> {
        // 24 bits only: a stand-in
        let floats = values.iter().map(|v| (*v & 0xff_ffff) as f32).collect();
        let all = self.all_reduce_async(floats, op).wait()?;
        *values = all.iter().map(|v| *v as u64).collect();
        Ok(())
    }
    pub fn barrier(&self) -> Outcome<()> {
        self.all_reduce_async(vec![0.0], ReduceOp::Sum).wait().map(drop)
    }
    pub fn close(self) -> Outcome<()> {
        Ok(())
    }
}

fn drive(
    rank: usize,
    world: usize,
    rate: Option<f64>,
    mut peers: Vec<TcpStream>,
    queue: Receiver<(Vec<f32>, ReduceOp, Sender<Vec<f32>>)>,
) -> Outcome<()> {
    for (mut values, op, done) in queue {
        let begun = Instant::now();
        let mut bytes = vec![0u8; values.len() * 4];
        if rank == 0 {
            for peer in &mut peers {
                peer.read_exact(&mut bytes)?;
                for (value, other) in values.iter_mut().zip(bytes.chunks_exact(4)) {
                    let other = f32::from_le_bytes(other.try_into()?);
                    *value = match op {
                        ReduceOp::Sum => *value + other,
                        ReduceOp::Min => value.min(other),
                        ReduceOp::Max => value.max(other),
                    };
                }
            }
            pace(rate, world, values.len(), begun);
            bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            for peer in &mut peers {
                peer.write_all(&bytes)?;
            }
        } else {
            bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            peers[0].write_all(&bytes)?;
            peers[0].read_exact(&mut bytes)?;
            values = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        }
        let _ = done.send(values);
    }
    Ok(())
}

fn pace(rate: Option<f64>, world: usize, count: usize, begun: Instant) {
    if let Some(rate) = rate {
        let bytes = 4.0 * count as f64 * 2.0 * (world - 1) as f64 / world as f64;
        std::thread::sleep(Duration::from_secs_f64(bytes / rate).saturating_sub(begun.elapsed()));
    }
}
