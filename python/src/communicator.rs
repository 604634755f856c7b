//! [`Communicator`]: the engine's, for Python. Which calls there are is Python's business; here a call is a name, arrays and options.

use std::net::TcpListener;
use std::os::fd::FromRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hcomm::Rank;
use hcomm::environment::{Address, Placement, Secret, Token};
use hcomm::transports::rendezvous::Cancel;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::bound::Given;
use crate::busy;
use crate::lent::Use;
use crate::lifetime::Here;
use crate::options::Options;
use crate::plan::{self, Plan};
use crate::request::{Asked, Message, Ready, message};
use crate::shared::{Quietly, Shared};
use crate::statistics;
use crate::waiting::{run_aside, run_aside_until};
use crate::words::{parsed, rank_of, seconds, tag_of};
use crate::work::Work;
use crate::{errors, settings};

/// Ranks of the largest world.
const MOST_RANKS: usize = 1 << 16;

/// The ranks that call together, and this rank's place among them.
#[pyclass(frozen, weakref, module = "hcomm._native")]
pub struct Communicator {
    handle: Here<Quietly>,
    shared: Arc<Shared>,
}

impl Communicator {
    fn new(communicator: hcomm::Communicator) -> Self {
        let shared = Shared::of(&communicator);
        Communicator { handle: Quietly::new(communicator), shared: Arc::new(shared) }
    }

    fn handle(&self, handle: hcomm::Communicator) -> Self {
        Communicator { handle: Quietly::new(handle), shared: self.shared.clone() }
    }

    fn work(&self, operation: hcomm::Work<Given>, collective: &'static str) -> Work {
        Work::new(operation, self.shared.clone(), collective)
    }

    fn begin(
        &self,
        py: Python<'_>,
        asked: &Asked<'_, '_>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Work> {
        let communicator: &hcomm::Communicator = self.handle.get()?;
        let ready = Options::read(options).and_then(|mut options| {
            let ready = asked.bind(
                py,
                communicator,
                &mut options,
                (self.shared.scratch()?, &self.shared.overflows),
            )?;
            let handle = options.handle(communicator, &ready.after);
            Ok((ready, handle))
        });
        let (Ready { ask, given, touched, .. }, handle) = ready.inspect_err(|error| {
            // The call takes its number, as one that the engine refuses does, and peers are told.
            communicator.refuse(&error.value(py).to_string());
        })?;
        let operation = handle.as_ref().unwrap_or(communicator).call(&ask, given);
        busy::note(py, touched, &operation);
        Ok(self.work(operation, ask.collective().name()))
    }
}

#[pymethods]
impl Communicator {
    /// The communicator of this process's job, from the variables that its launcher set; alone where there are none.
    #[staticmethod]
    fn from_environment(py: Python<'_>, overrides: &Bound<'_, PyDict>) -> PyResult<Communicator> {
        let settings = settings::read(overrides)?;
        let placement = Placement::from_env().map_err(|error| errors::from_create(py, &error.into()))?;
        connect(py, placement, settings, None)
    }

    /// The communicator of a placement made by hand. Rank 0 may bring the descriptor of a socket that listens at `address`. Without a token, ranks of
    /// one host share one that rank 0 draws.
    #[staticmethod]
    #[pyo3(signature = (place, address, token, overrides, listener = None))]
    fn connect(
        py: Python<'_>,
        place: (Rank, usize),
        address: &str,
        token: Option<&str>,
        overrides: &Bound<'_, PyDict>,
        listener: Option<i32>,
    ) -> PyResult<Communicator> {
        // SAFETY: the caller gives the descriptor away.
        let listener = listener.map(|descriptor| unsafe { TcpListener::from_raw_fd(descriptor) });
        let address: Address = parsed(address)?;
        let (rank, world) = place;
        let secret = match token.map(Token::from_hex) {
            Some(Some(token)) => Secret::Given(token),
            Some(None) => return Err(errors::refused(py, "a job token that is not 64 hexadecimal digits")),
            None => Secret::for_address(&address, world),
        };
        if world > MOST_RANKS {
            return Err(errors::refused(
                py,
                &format!("a world of {world} ranks; expected at most {MOST_RANKS}"),
            ));
        }
        let source = "python";
        let placement =
            Placement { rank, world, local_rank: None, local_world: None, address, secret, source };
        connect(py, placement, settings::read(overrides)?, listener)
    }

    /// This process's place, 0 up to the world size.
    #[getter]
    fn rank(&self) -> PyResult<Rank> {
        Ok(self.handle.get()?.rank())
    }

    /// How many ranks there are.
    #[getter]
    fn world(&self) -> PyResult<usize> {
        Ok(self.handle.get()?.world())
    }

    /// `world`, or what it was given when it was split.
    #[getter]
    fn name(&self) -> PyResult<String> {
        Ok(self.handle.get()?.name().to_owned())
    }

    /// By rank: what joins this rank to it, and why nothing faster.
    #[getter]
    fn links(&self) -> PyResult<Vec<String>> {
        Ok(self.handle.get()?.links().to_vec())
    }

    /// Every setting of it, by name.
    fn settings(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        Ok(settings::show(py, self.handle.get()?.settings())?.unbind())
    }

    /// A handle on the same communicator whose calls have these options.
    #[pyo3(signature = (*, priority = None, deadline = None, deterministic = false, algorithm = None, name = None))]
    fn with_options(
        &self,
        py: Python<'_>,
        priority: Option<i32>,
        deadline: Option<f64>,
        deterministic: bool,
        algorithm: Option<&str>,
        name: Option<&str>,
    ) -> PyResult<Communicator> {
        let mut handle = hcomm::Communicator::clone(self.handle.get()?);
        if let Some(priority) = priority {
            handle = handle.priority(priority);
        }
        if let Some(deadline) = deadline {
            handle = handle.deadline(seconds(deadline)?);
        }
        if deterministic {
            handle = handle.deterministic();
        }
        if let Some(algorithm) = algorithm {
            handle = handle.algorithm(algorithm).map_err(|error| errors::from_error(py, &error))?;
        }
        if let Some(name) = name {
            handle = handle.named(name);
        }
        Ok(self.handle(handle))
    }

    /// Starts a collective call. In place: the same object as input and output; a list of arrays then counts as one array.
    #[pyo3(signature = (collective, input, output, op = "sum", root = 0, options = None))]
    fn start(
        slf: &Bound<'_, Self>,
        collective: &str,
        input: Option<&Bound<'_, PyAny>>,
        output: Option<&Bound<'_, PyAny>>,
        op: &str,
        root: i64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Work> {
        slf.get().begin(slf.py(), &Asked { collective, input, output, op, root }, options)
    }

    /// Starts a collective call and waits for its end.
    #[pyo3(signature = (collective, input, output, op = "sum", root = 0, options = None))]
    fn run(
        slf: &Bound<'_, Self>,
        collective: &str,
        input: Option<&Bound<'_, PyAny>>,
        output: Option<&Bound<'_, PyAny>>,
        op: &str,
        root: i64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let began = slf.get().shared.now();
        let work = slf.get().begin(slf.py(), &Asked { collective, input, output, op, root }, options)?;
        work.finish(slf.py(), began)
    }

    /// Starts the sending of an array to a rank.
    #[pyo3(signature = (buffer, to, tag = 0, options = None))]
    fn send(
        &self,
        buffer: &Bound<'_, PyAny>,
        to: i64,
        tag: i64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Work> {
        let (py, communicator): (_, &hcomm::Communicator) = (buffer.py(), self.handle.get()?);
        let (to, tag) = (rank_of(py, to, communicator.world())?, tag_of(py, tag)?);
        let options = Options::read(options)?;
        let Message { given, touched, after } = message(buffer, Use::Input, self.shared.scratch()?)?;
        let handle = options.handle(communicator, &after);
        let operation = handle.as_ref().unwrap_or(communicator).send_call(given, to, tag);
        busy::note(py, touched, &operation);
        Ok(self.work(operation, "send"))
    }

    /// Starts the receiving of an array from a rank, or from whichever sends first.
    #[pyo3(signature = (buffer, source = None, tag = 0, options = None))]
    fn recv(
        &self,
        buffer: &Bound<'_, PyAny>,
        source: Option<i64>,
        tag: i64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Work> {
        let (py, communicator): (_, &hcomm::Communicator) = (buffer.py(), self.handle.get()?);
        let source = source.map(|rank| rank_of(py, rank, communicator.world())).transpose()?;
        let tag = tag_of(py, tag)?;
        let options = Options::read(options)?;
        let Message { given, touched, after } = message(buffer, Use::Output, self.shared.scratch()?)?;
        let handle = options.handle(communicator, &after);
        let operation = handle.as_ref().unwrap_or(communicator).recv_call(given, source, tag);
        busy::note(py, touched, &operation);
        Ok(self.work(operation, "recv"))
    }

    /// Whether another is a handle on the same communicator.
    fn is_same(&self, other: &Communicator) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// New communicators among the ranks that give the same group, numbered by key, then by rank; None for who gives no group.
    #[pyo3(signature = (group, key = 0, overrides = None))]
    fn split(
        &self,
        py: Python<'_>,
        group: Option<u32>,
        key: i64,
        overrides: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Option<Communicator>> {
        let communicator = hcomm::Communicator::clone(self.handle.get()?);
        let settings = match overrides {
            Some(overrides) => settings::changed(communicator.settings(), overrides)?,
            None => communicator.settings().clone(),
        };
        let made = run_aside(py, move || communicator.split_with(group, key, settings))?;
        Ok(made.map_err(|error| errors::from_create(py, &error))?.map(Communicator::new))
    }

    /// Ends every operation in flight, here and, as soon as they need this rank, elsewhere.
    fn abort(&self, py: Python<'_>, reason: &str) -> PyResult<()> {
        let communicator: &hcomm::Communicator = self.handle.get()?;
        py.detach(|| communicator.abort(reason));
        Ok(())
    }

    /// Waits for all operations, sends what peers still need, and says goodbye; `because` of an error of the program, it waits for nothing
    /// and tells the peers.
    #[pyo3(signature = (because = None))]
    fn close(&self, py: Python<'_>, because: Option<String>) -> PyResult<()> {
        let communicator = hcomm::Communicator::clone(self.handle.get()?);
        let closed = run_aside(py, move || match because {
            Some(error) => communicator.close_because(&error),
            None => communicator.close(),
        });
        match closed {
            Ok(closed) => closed.map_err(|error| errors::from_error(py, &error)),
            Err(signal) => {
                self.abort(py, "interrupted while it closed")?;
                Err(signal)
            }
        }
    }

    /// Whether times and sizes of calls are kept from now on; switching it on begins anew.
    fn record_statistics(&self, py: Python<'_>, on: bool) -> PyResult<()> {
        let communicator: &hcomm::Communicator = self.handle.get()?;
        py.detach(|| communicator.record_statistics(on));
        if on {
            self.shared.exposed.clear();
            self.shared.overflows.clear();
        }
        self.shared.is_recording.store(on, Ordering::Relaxed);
        Ok(())
    }

    /// What has been kept: a dict per kind of call, type of elements and algorithm.
    fn statistics(&self, py: Python<'_>) -> PyResult<Vec<Py<PyDict>>> {
        let communicator: &hcomm::Communicator = self.handle.get()?;
        let kept = py.detach(|| communicator.statistics());
        statistics::show(py, &kept)
    }

    /// Seconds that the program has spent waiting while statistics were kept, by the name of the call.
    fn exposed(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        let shown = PyDict::new(py);
        for (name, time) in self.shared.exposed.times() {
            shown.set_item(name, time.as_secs_f64())?;
        }
        Ok(shown.unbind())
    }

    /// Elements that became infinite since statistics were kept, as they crossed the wires in a narrower type, by the name of the call.
    fn overflows(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        let shown = PyDict::new(py);
        for (name, count) in self.shared.overflows.counts() {
            shown.set_item(name, count)?;
        }
        Ok(shown.unbind())
    }

    /// What the slowest link between the ranks carries, in bytes per second and direction, and whether that was measured.
    fn link(&self) -> PyResult<(f64, bool)> {
        let link = self.handle.get()?.link();
        Ok((link.bytes_per_s, link.measured))
    }

    /// The plan that a call through this handle gets, of all ranks.
    #[pyo3(signature = (collective, count, dtype = "f32", op = "sum", root = 0))]
    fn plan(
        &self,
        py: Python<'_>,
        collective: &str,
        count: u64,
        dtype: &str,
        op: &str,
        root: Rank,
    ) -> PyResult<Plan> {
        let communicator: &hcomm::Communicator = self.handle.get()?;
        plan::of_call(py, communicator, plan::request(collective, count, dtype, op, root)?)
    }
}

fn connect(
    py: Python<'_>,
    placement: Placement,
    settings: hcomm::Settings,
    listener: Option<TcpListener>,
) -> PyResult<Communicator> {
    let cancel = Cancel::default();
    let cancelled = cancel.clone();
    let connect =
        move || hcomm::Communicator::connect_cancellable(&placement, settings, listener, &cancelled);
    // A program that is interrupted may begin anew: neither the port nor the peers are kept from it.
    let made = run_aside_until(py, connect, || cancel.cancel())?;
    made.map(Communicator::new).map_err(|error| errors::from_create(py, &error))
}
