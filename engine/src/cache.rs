//! [`PlanCache`]: calls that were made before, bound and ready; and plans, which do not depend on sizes.

use std::sync::{Arc, Mutex, PoisonError};

use hcomm_ops::Rank;
use hcomm_planner::{Plan, PlanKey, Planner, Request};
use rustc_hash::FxHashMap;

use crate::call::Call;
use crate::error::Refused;

/// Calls kept; past this the cache starts anew.
const MAX_CALLS: usize = 4096;

/// See the module's text.
pub(crate) struct PlanCache {
    planner: Planner,
    rank: Rank,
    /// Largest message of a tile.
    message_bytes: usize,
    cached: Mutex<Cached>,
}

#[derive(Default)]
struct Cached {
    last: Option<Arc<Call>>,
    calls: FxHashMap<Request, Arc<Call>>,
    plans: FxHashMap<PlanKey, Arc<Plan>>,
}

impl PlanCache {
    pub fn new(planner: Planner, rank: Rank, message_bytes: usize) -> Self {
        PlanCache { planner, rank, message_bytes, cached: Mutex::default() }
    }

    /// The planner behind it.
    pub fn planner(&self) -> &Planner {
        &self.planner
    }

    /// The bound call of a request. `fresh` sees each call that enters the cache.
    pub fn call(&self, request: Request, fresh: impl FnOnce(&Call)) -> Result<Arc<Call>, Refused> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = cached.last.as_ref().filter(|last| last.request == request) {
            return Ok(last.clone());
        }
        if let Some(call) = cached.calls.get(&request).cloned() {
            cached.last = Some(call.clone());
            return Ok(call);
        }
        let (plan, tile_bytes) = self.plan_in(&mut cached, &request)?;
        let mut call = Call::bind(request, plan, self.limited(tile_bytes))?;
        call.make_repeatable();
        let call = Arc::new(call);
        fresh(&call);
        if cached.calls.len() >= MAX_CALLS {
            cached.calls.clear();
        }
        cached.calls.insert(call.request.clone(), call.clone());
        cached.last = Some(call.clone());
        Ok(call)
    }

    /// The plan of a request.
    pub fn plan(&self, request: &Request) -> Result<Arc<Plan>, Refused> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        self.plan_in(&mut cached, request).map(|(plan, _)| plan)
    }

    /// Binds a request to a plan given by the caller.
    pub fn bind(&self, request: Request, plan: &Arc<Plan>) -> Result<Call, Refused> {
        let tile_bytes = self.planner.tile_bytes(&request, plan);
        Call::bind(request, plan.clone(), self.limited(tile_bytes))
    }

    /// The plan of a request, and most bytes of one of its messages.
    fn plan_in(&self, cached: &mut Cached, request: &Request) -> Result<(Arc<Plan>, u64), Refused> {
        let candidate = self.planner.candidate(request)?;
        let key = PlanKey::of(request, &candidate);
        if let Some(plan) = cached.plans.get(&key) {
            return Ok((plan.clone(), candidate.tile_bytes));
        }
        let plan = Arc::new(self.planner.compile(request, self.rank)?);
        #[cfg(debug_assertions)]
        crate::proof::prove(&self.planner, request, &plan)?;
        cached.plans.insert(key, plan.clone());
        Ok((plan, candidate.tile_bytes))
    }

    /// A tile is never longer than a slot.
    fn limited(&self, tile_bytes: u64) -> usize {
        usize::try_from(tile_bytes).unwrap_or(usize::MAX).min(self.message_bytes)
    }
}
