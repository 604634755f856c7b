//! The JSON of an execution plan, field by field, as `read` takes it apart. Fields that say nothing about a plan's meaning are left alone.

use serde::Deserialize;

/// A whole file.
#[derive(Debug, Deserialize)]
pub(super) struct File {
    pub name: String,
    pub collective: String,
    #[serde(default)]
    pub inplace: bool,
    #[serde(default)]
    pub min_message_size: u64,
    pub max_message_size: Option<u64>,
    pub gpus: Vec<Gpu>,
}

/// One GPU's part.
#[derive(Debug, Deserialize)]
pub(super) struct Gpu {
    pub id: u64,
    pub input_chunks: u64,
    pub output_chunks: u64,
    pub scratch_chunks: u64,
    pub threadblocks: Vec<Block>,
    #[serde(default)]
    pub channels: Vec<Channels>,
    #[serde(default)]
    pub remote_buffers: Vec<RemoteBuffer>,
    #[serde(default)]
    pub semaphores: Vec<Semaphore>,
}

/// Channels of one type; each is connected to one peer, or, through a switch, to a group.
#[derive(Debug, Deserialize)]
pub(super) struct Channels {
    #[serde(alias = "type")]
    pub channel_type: String,
    #[serde(default)]
    pub connected_to: Vec<u64>,
    #[serde(alias = "buff")]
    pub buffer_type: Option<String>,
    #[serde(default)]
    pub rank_groups: Vec<RankGroup>,
}

/// The GPUs of a switch channel.
#[derive(Debug, Deserialize)]
pub(super) struct RankGroup {
    pub ranks: Vec<u64>,
}

/// A buffer of another GPU.
#[derive(Debug, Deserialize)]
pub(super) struct RemoteBuffer {
    pub rank: u64,
    #[serde(rename = "type")]
    pub buffer: String,
}

/// A semaphore between thread blocks.
#[derive(Debug, Deserialize)]
pub(super) struct Semaphore {
    pub init_value: i64,
}

/// A thread block.
#[derive(Debug, Deserialize)]
pub(super) struct Block {
    pub id: u64,
    pub ops: Vec<Op>,
    #[serde(default)]
    pub channels: Vec<BlockChannels>,
    #[serde(default)]
    pub remote_buffer_refs: Vec<BlockBuffers>,
}

/// Channels that a block uses: numbers among its GPU's of that type.
#[derive(Debug, Deserialize)]
pub(super) struct BlockChannels {
    pub channel_type: String,
    pub channel_ids: Vec<u64>,
}

/// Remote buffers that a block uses: numbers among its GPU's.
#[derive(Debug, Deserialize)]
pub(super) struct BlockBuffers {
    pub access_channel_type: String,
    pub remote_buffer_ids: Vec<u64>,
}

/// An operation.
#[derive(Debug, Deserialize)]
pub(super) struct Op {
    pub name: String,
    #[serde(default)]
    pub src_buff: Vec<Chunks>,
    #[serde(default)]
    pub dst_buff: Vec<Chunks>,
    #[serde(default)]
    pub channel_ids: Vec<u64>,
    pub channel_type: Option<String>,
    pub tbg_info: Option<Group>,
    pub barrier_id: Option<u64>,
    pub num_threadblocks: Option<u64>,
    #[serde(default)]
    pub semaphore_ids: Vec<u64>,
    #[serde(default)]
    pub ops: Vec<Op>,
}

/// Chunks that an operation reads or writes: exactly one of the first three says where.
#[derive(Debug, Deserialize)]
pub(super) struct Chunks {
    #[serde(rename = "type")]
    pub buffer: Option<String>,
    pub buffer_id: Option<u64>,
    pub switch_channel_id: Option<u64>,
    pub index: u64,
    pub size: u64,
}

/// Blocks that share an operation, each doing an equal part of it.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Group {
    pub tb_id: u64,
    pub tbg_size: u64,
}
