// Times a collective of Gloo, which moves bytes by TCP: gloo COLLECTIVE BYTES[,BYTES...] RANK WORLD FOLDER, one process a rank, started
// together with an empty folder in which they meet. Rows as mpi.cpp. See measure.hpp.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "measure.hpp"

using Fold = void (*)(void *, const void *, const void *, size_t);

struct Gloo {
  std::shared_ptr<gloo::rendezvous::Context> context;

  Gloo(int rank, int world, const std::string &folder) : context(std::make_shared<gloo::rendezvous::Context>(rank, world)) {
    gloo::transport::tcp::attr loopback;
    loopback.iface = "lo";
    gloo::rendezvous::FileStore store(folder);
    auto device = gloo::transport::tcp::CreateDevice(loopback);
    context->connectFullMesh(store, device);
  }
  int rank() const { return context->rank; }
  int world() const { return context->size; }

  void barrier() {
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
  }

  double largest(double value) {
    gloo::AllreduceOptions options(context);
    options.setOutput(&value, 1);
    options.setReduceFunction(static_cast<Fold>(&gloo::max<double>));
    gloo::allreduce(options);
    return value;
  }

  // Options with both buffers, made anew for every call as Gloo's users do.
  template <class Options> Options with(Buffers *b, size_t in, size_t out) {
    Options options(context);
    options.setInput(b->in.data(), in);
    options.setOutput(b->out.data(), out);
    return options;
  }

  void all_reduce(Buffers *b) {
    auto options = with<gloo::AllreduceOptions>(b, b->count, b->count);
    options.setReduceFunction(static_cast<Fold>(&gloo::sum<float>));
    gloo::allreduce(options);
  }
  void all_gather(Buffers *b) {
    auto options = with<gloo::AllgatherOptions>(b, b->part, b->count);
    gloo::allgather(options);
  }
  void all_to_all(Buffers *b) {
    auto options = with<gloo::AlltoallOptions>(b, b->count, b->count);
    gloo::alltoall(options);
  }
  void broadcast(Buffers *b) {
    gloo::BroadcastOptions options(context);
    options.setOutput(b->out.data(), b->count);
    options.setRoot(0);
    gloo::broadcast(options);
  }

  Call start(const std::string &name, Buffers &buffers) {
    Buffers *b = &buffers;
    if (name == "all_reduce") return [=, this] { all_reduce(b); };
    if (name == "all_gather") return [=, this] { all_gather(b); };
    if (name == "all_to_all") return [=, this] { all_to_all(b); };
    if (name == "broadcast") return [=, this] { broadcast(b); };
    if (name == "barrier") return [this] { barrier(); };
    return {};
  }
};

int main(int argc, char **argv) {
  if (argc != 6) {
    fprintf(stderr, "usage: gloo COLLECTIVE BYTES[,BYTES...] RANK WORLD FOLDER\n");
    return 2;
  }
  Gloo library(atoi(argv[3]), atoi(argv[4]), argv[5]);
  return measure_all(library, argv[1], argv[2]);
}
