//! The one table of settings: from each line come a field of [`Settings`], its default, its [`Entry`] in [`TABLE`], its line
//! in the documentation and its check. To add a setting, add a line.

use std::path::PathBuf;
use std::time::Duration;

use super::entry::{Entry, Range};
use super::value::{
    AlgorithmPins, Bytes, CpuSet, DebugLevel, NameFilter, Rate, TransportChoice, TuningChoice, Value,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400_000_000_000;

/// Whether all ranks must have the same value.
const AGREED: bool = true;
const LOCAL: bool = false;

/// `field: Type = default, "NAME", range, agreed or local, "reason";` per setting.
macro_rules! settings {
    ($($field:ident: $type:ty = $default:expr, $name:literal, $range:expr, $agreed:expr, $reason:literal;)*) => {
        /// Every setting of a process, by its type. Made by [`Settings::from_env`] or [`Settings::from_pairs`].
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $(#[doc = concat!("`", $name, "`: ", $reason)] pub $field: $type,)*
        }

        impl Default for Settings {
            fn default() -> Self {
                Settings { $($field: $default,)* }
            }
        }

        /// Every setting, in the order in which they are described and agreed on.
        pub static TABLE: &[Entry] = &[$(Entry {
            name: $name,
            reason: $reason,
            range: $range,
            agreed: $agreed,
            value: |settings| &settings.$field as &dyn Value,
            value_mut: |settings| &mut settings.$field as &mut dyn Value,
        },)*];
    };
}

settings! {
    transport: TransportChoice = TransportChoice::Auto, "HCOMM_TRANSPORT", Range::ANY, AGREED,
        "what joins the ranks: shared memory within a host and TCP between hosts (auto), or one of them everywhere";
    buffer_size: Bytes = Bytes(32 * MIB), "HCOMM_BUFFER_SIZE", Range::from_to(64 * KIB, 64 * GIB), AGREED,
        "staging memory of one communicator on one rank, of which is taken what is used; less of it makes tiles smaller. \
         Each peer of the same host is promised 390 KiB of it in any case, more with a greater depth";
    tile_bytes: Bytes = Bytes(0), "HCOMM_TILE_BYTES", Range::from_to(128, GIB).or_zero(), AGREED,
        "bytes that move as one message, rounded down to a multiple of 128; 0 lets hcomm choose by transport and buffer size";
    depth: u32 = 2, "HCOMM_DEPTH", Range::from_to(2, 64), AGREED,
        "messages that a channel holds before its sender must wait for the receiver";
    inflight_bytes: Bytes = Bytes(0), "HCOMM_INFLIGHT_BYTES", Range::from_to(4 * KIB, 64 * GIB).or_zero(), LOCAL,
        "bytes of low priority handed to one wire at a time, which bounds what an urgent operation waits behind; \
         0 is what the link carries in 200us";
    link_rate: Rate = Rate::bytes_per_s(0), "HCOMM_LINK_RATE", Range::from_to(1000, 1000 * GIB).or_zero(), AGREED,
        "paces what a rank sends over TCP, to imitate a slower link; 0 does not pace";
    algorithm: AlgorithmPins = AlgorithmPins::default(), "HCOMM_ALGORITHM", Range::ANY, AGREED,
        "algorithms to use in place of the planner's choice, by collective and size of the full buffer";
    tuning: TuningChoice = TuningChoice::Auto, "HCOMM_TUNING", Range::ANY, LOCAL,
        "a file of measured costs, as `hcomm tune` writes it; auto takes ~/.config/hcomm/tuning.toml if it is of this machine, off \
         takes none; rank 0's holds for all";
    deterministic: bool = false, "HCOMM_DETERMINISTIC", Range::ANY, AGREED,
        "whether every reduction is the left fold over the ranks, rounded once, whatever its size and algorithm";
    deadline: Duration = Duration::from_secs(600), "HCOMM_DEADLINE", Range::from_to(MS, 30 * DAY), LOCAL,
        "how long an operation may take before it fails with the names of the ranks that it waits for";
    stall_warning: Duration = Duration::from_secs(10), "HCOMM_STALL_WARNING", Range::from_to(MS, 30 * DAY).or_zero(), LOCAL,
        "how long an operation may stand still before a warning names the ranks that have not arrived; 0 never warns";
    rendezvous_deadline: Duration = Duration::from_secs(120), "HCOMM_RENDEZVOUS_DEADLINE", Range::from_to(MS, 30 * DAY), LOCAL,
        "how long ranks wait for one another at the start before the missing ones are named";
    close_deadline: Duration = Duration::from_secs(10), "HCOMM_CLOSE_DEADLINE", Range::from_to(MS, DAY), LOCAL,
        "how long a communicator that closes keeps sending what its peers still need";
    heartbeat: Duration = Duration::from_secs(5), "HCOMM_HEARTBEAT", Range::from_to(SECOND, DAY).or_zero(), AGREED,
        "how long another host may be silent before its ranks count as lost, and a process before warnings say that it is silent; \
         a process that is stopped is not lost; 0 waits for ever";
    spin: Duration = Duration::from_micros(5), "HCOMM_SPIN", Range::from_to(US, DAY).or_zero(), LOCAL,
        "how long a waiting rank keeps its core before it lets others run and then sleeps; where a host has more ranks \
         than cores it is next to nothing in any case";
    socket_ifname: NameFilter = NameFilter::default(), "HCOMM_SOCKET_IFNAME", Range::ANY, LOCAL,
        "network interfaces that TCP may use";
    ib_hca: NameFilter = NameFilter::default(), "HCOMM_IB_HCA", Range::ANY, LOCAL,
        "InfiniBand and RoCE devices that may be used, with ports where wanted (mlx5_0:1)";
    debug: DebugLevel = DebugLevel::Warn, "HCOMM_DEBUG", Range::ANY, LOCAL,
        "how much hcomm says on standard error; info prints transports, staging and settings of each communicator";
    trace_events: u32 = 0, "HCOMM_TRACE_EVENTS", Range::from_to(0, 1 << 28), LOCAL,
        "plan-node events that a rank keeps for profiling, the newest; 0 records none";
    driver_cpus: CpuSet = CpuSet::default(), "HCOMM_DRIVER_CPUS", Range::ANY, LOCAL,
        "processors that hcomm's background threads run on; nothing leaves the choice to the system";
    topology: Option<PathBuf> = None, "HCOMM_TOPOLOGY", Range::ANY, LOCAL,
        "a file that describes hosts, devices and links in place of what is found; rank 0's holds for all";
}
