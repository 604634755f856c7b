// The least time in which memory lets 2 ranks all_reduce: two pinned threads read two halves and write two halves of the
// buffers, and do nothing else. floor COLLECTIVE BYTES[,BYTES...] prints rows as mpi.cpp; of stores into and past the caches the
// faster way counts. Other collectives than all_reduce have no row.
#include <emmintrin.h>
#include <pthread.h>
#include <sched.h>
#include <thread>

#include "measure.hpp"

constexpr int RUNS = 41;

// Two inputs, two outputs, all of `count` floats aligned to a line.
struct Memory {
  size_t count;
  float *in[2], *out[2];
  explicit Memory(size_t count) : count(count) {
    for (int rank = 0; rank < 2; rank++) {
      in[rank] = static_cast<float *>(aligned_alloc(4096, (count * 4 + 4095) / 4096 * 4096));
      out[rank] = static_cast<float *>(aligned_alloc(4096, (count * 4 + 4095) / 4096 * 4096));
      for (size_t at = 0; at < count; at++) in[rank][at] = element(rank, at, 0), out[rank][at] = POISON;
    }
  }
  ~Memory() {
    for (int rank = 0; rank < 2; rank++) free(in[rank]), free(out[rank]);
  }
};

template <bool PAST_CACHES> static void sum(const Memory &m, size_t from, size_t to) {
  for (size_t at = from; at < to; at += 4) {
    __m128 both = _mm_add_ps(_mm_load_ps(m.in[0] + at), _mm_load_ps(m.in[1] + at));
    for (float *out : m.out) PAST_CACHES ? _mm_stream_ps(out + at, both) : _mm_store_ps(out + at, both);
  }
  _mm_sfence();
}

// Keeps the calling thread on the `index`-th processor that this process may use.
static void pin(int index) {
  cpu_set_t allowed, own;
  CPU_ZERO(&own);
  sched_getaffinity(0, sizeof allowed, &allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &allowed) && index-- == 0) CPU_SET(cpu, &own);
  if (CPU_COUNT(&own)) pthread_setaffinity_np(pthread_self(), sizeof own, &own);
}

template <bool PAST_CACHES> static void worker(const Memory &m, int rank, pthread_barrier_t &gate, std::vector<double> &times) {
  pin(rank);
  size_t half = m.count / 2;
  for (int run = 0; run < RUNS; run++) {
    pthread_barrier_wait(&gate);
    auto start = std::chrono::steady_clock::now();
    sum<PAST_CACHES>(m, rank * half, (rank + 1) * half);
    pthread_barrier_wait(&gate);
    if (rank == 0) times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
}

template <bool PAST_CACHES> static double median_us(const Memory &m) {
  pthread_barrier_t gate;
  pthread_barrier_init(&gate, nullptr, 2);
  std::vector<double> times;
  std::thread other([&] { worker<PAST_CACHES>(m, 1, gate, times); });
  std::thread first([&] { worker<PAST_CACHES>(m, 0, gate, times); });
  first.join(), other.join();
  std::nth_element(times.begin(), times.begin() + RUNS / 2, times.end());
  return times[RUNS / 2];
}

static bool is_right(const Memory &m) {
  for (size_t at = 0; at < m.count; at++)
    for (const float *out : m.out)
      if (out[at] != element(0, at, 0) + element(1, at, 0)) return false;
  return true;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: floor COLLECTIVE BYTES[,BYTES...]\n");
    return 2;
  }
  if (argv[1] != std::string("all_reduce")) return 3;
  std::stringstream list(argv[2]);
  for (std::string size; std::getline(list, size, ',');) {
    size_t bytes = strtoull(size.c_str(), nullptr, 10);
    Memory memory(bytes / 128 * 32);
    double past = median_us<true>(memory);
    bool right = is_right(memory);
    double into = median_us<false>(memory);
    if (!right || !is_right(memory)) {
      fprintf(stderr, "floor of %zu bytes: a wrong sum\n", bytes);
      return 1;
    }
    double best = std::min(past, into);
    printf("all_reduce,2,%zu,%.3f,%.3f\n", bytes, best, best);
  }
}
