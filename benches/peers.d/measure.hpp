// The method, once for all libraries; each library's program gives it a `Library` and `main` calls `measure_all`.
//
// A `Library` has: rank(), world(), barrier(), largest(double) (over all ranks), and start(name, Buffers) -> a callable that makes
// the collective once, or an empty one where the library has no such collective.
//
// Rows are "collective,ranks,bytes,median_us,stream_us". The first figure is the median of calls that each follow a barrier, the
// second the mean of calls one after the other; both of the rank where they are largest. Bytes are those of the full buffer, as
// nccl-tests counts: all_gather's output, reduce_scatter's and all_to_all's input. Before each barrier, outside of the time, one word in each
// cache line of the input is changed. Results are compared in full, twice; a wrong one ends the program with 1 and without a row.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

constexpr size_t WORDS_PER_LINE = 16;
constexpr float POISON = -1e30f;

// `count` elements, of which each rank has a `part` where the collective divides them: then bytes are rounded down to whole parts. There is room
// beyond, so that an empty buffer has an address.
struct Buffers {
  size_t part, count;
  std::vector<float> in, out;
  Buffers(size_t bytes, int world, bool divides)
      : part(bytes / sizeof(float) / world), count(divides ? part * world : bytes / sizeof(float)), in(count + 1), out(count + 1) {}
};

inline bool divides(const std::string &name) { return name == "all_gather" || name == "reduce_scatter" || name == "all_to_all"; }

using Call = std::function<void()>;

// What `rank` holds at `index` in a run: small whole numbers, whose sums are exact in any order.
inline float element(int rank, size_t index, int run) {
  unsigned changed = index % WORDS_PER_LINE == 0 ? run : 0;
  return float((index * 7 + unsigned(rank) * 13 + changed * 5) % 101) - 50;
}

template <class Library> class Measurement {
  Library &library;
  std::string name;
  Buffers buffers;
  Call call;
  int world, rank;

  // Broadcast's buffer is input and output.
  std::vector<float> &input() { return name == "broadcast" ? buffers.out : buffers.in; }

  void rewrite(int run) {
    auto &data = input();
    for (size_t at = 0; at < buffers.count; at += WORDS_PER_LINE) data[at] = element(rank, at, run);
  }

  void fill(int run) {
    std::fill(buffers.out.begin(), buffers.out.end(), POISON);
    auto &data = input();
    for (size_t at = 0; at < buffers.count; at++) data[at] = element(rank, at, run);
  }

  size_t output_count() const { return name == "barrier" ? 0 : name == "reduce_scatter" ? buffers.part : buffers.count; }

  float wanted(size_t at, int run) const {
    size_t from = buffers.part ? at / buffers.part : 0, within = buffers.part ? at % buffers.part : 0;
    if (name == "broadcast") return element(0, at, run);
    if (name == "all_gather") return element(from, within, run);
    if (name == "all_to_all") return element(from, rank * buffers.part + within, run);
    size_t index = name == "reduce_scatter" ? rank * buffers.part + at : at;
    float sum = 0;
    for (int other = 0; other < world; other++) sum += element(other, index, run);
    return sum;
  }

  // Makes one call on fresh data and ends the program where any element of any rank is wrong.
  void prove(int run) {
    fill(run);
    library.barrier();
    call();
    size_t wrong = 0;
    for (size_t at = 0; at < output_count(); at++) wrong += buffers.out[at] != wanted(at, run);
    if (library.largest(double(wrong)) == 0) return;
    if (wrong) fprintf(stderr, "%s of %zu bytes: rank %d has %zu wrong elements\n", name.c_str(), 4 * buffers.count, rank, wrong);
    exit(1);
  }

  static double now_us() {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  double after_barriers(int runs) {
    std::vector<double> times;
    for (int run = -runs / 5 - 1; run < runs; run++) {
      rewrite(run);
      library.barrier();
      double start = now_us();
      call();
      double time = now_us() - start;
      if (run >= 0) times.push_back(time);
    }
    std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
    return times[runs / 2];
  }

  double in_a_row(int runs) {
    library.barrier();
    double start = now_us();
    for (int run = 0; run < runs; run++) call();
    return (now_us() - start) / runs;
  }

public:
  Measurement(Library &library, const std::string &name, size_t bytes)
      : library(library), name(name), buffers(bytes, library.world(), divides(name)), call(library.start(name, buffers)), world(library.world()),
        rank(library.rank()) {}

  bool exists() const { return bool(call); }

  void measure(size_t bytes) {
    int runs = bytes <= 64 << 10 ? 2000 : bytes <= 1 << 20 ? 200 : bytes <= 16 << 20 ? 40 : 12;
    prove(1);
    double median = library.largest(after_barriers(runs)), stream = library.largest(in_a_row(runs));
    prove(2);
    if (rank == 0) printf("%s,%d,%zu,%.3f,%.3f\n", name.c_str(), world, bytes, median, stream), fflush(stdout);
  }
};

// `name` of each of the comma-separated `sizes`; the program's exit code.
template <class Library> int measure_all(Library &library, const std::string &name, const std::string &sizes) {
  std::stringstream list(sizes);
  for (std::string size; std::getline(list, size, ',');) {
    size_t bytes = strtoull(size.c_str(), nullptr, 10);
    Measurement<Library> measurement(library, name, bytes);
    if (!measurement.exists()) {
      fprintf(stderr, "this library has no %s\n", name.c_str());
      return 3;
    }
    measurement.measure(bytes);
  }
  return 0;
}
