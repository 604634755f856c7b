//! [`Before`]: what lanes and edges of one rank say: for each node, which others are issued and done before it is issued.

/// A square of bits each; nodes are entered in an order that lanes and edges allow.
#[derive(Clone, Debug)]
pub(crate) struct Before {
    words: usize,
    issued: Vec<u64>,
    done: Vec<u64>,
}

impl Before {
    /// So many nodes in no order.
    pub fn new(nodes: usize) -> Before {
        let words = nodes.div_ceil(64);
        Before { words, issued: vec![0; nodes * words], done: vec![0; nodes * words] }
    }

    /// Node `at` comes after `earlier`, whose own order is known: after its issue, or (`is_done`) after its end.
    pub fn follow(&mut self, at: usize, earlier: usize, is_done: bool) {
        for word in 0..self.words {
            self.issued[at * self.words + word] |= self.issued[earlier * self.words + word];
            self.done[at * self.words + word] |= self.done[earlier * self.words + word];
        }
        self.issued[at * self.words + earlier / 64] |= 1 << (earlier % 64);
        if is_done {
            self.done[at * self.words + earlier / 64] |= 1 << (earlier % 64);
        }
    }

    /// Whether `earlier` is issued before `at` is.
    pub fn issued(&self, earlier: usize, at: usize) -> bool {
        self.issued[at * self.words + earlier / 64] >> (earlier % 64) & 1 == 1
    }

    /// Whether `earlier` is done before `at` is issued.
    pub fn done(&self, earlier: usize, at: usize) -> bool {
        self.done[at * self.words + earlier / 64] >> (earlier % 64) & 1 == 1
    }
}
