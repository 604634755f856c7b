// Times a collective of oneCCL on the processor; arguments and rows as mpi.cpp, whose launcher starts it too. See measure.hpp.
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <oneapi/ccl.hpp>

#include "measure.hpp"

// The address at which rank 0's store is found travels by MPI.
static ccl::shared_ptr_class<ccl::kvs> meet(int rank) {
  ccl::kvs::address_type address;
  ccl::shared_ptr_class<ccl::kvs> store;
  if (rank == 0) {
    store = ccl::create_main_kvs();
    address = store->get_address();
  }
  MPI_Bcast(address.data(), int(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
  return rank == 0 ? store : ccl::create_kvs(address);
}

struct OneCcl {
  ccl::communicator comm;

  OneCcl(int rank, int world) : comm(ccl::create_communicator(world, rank, meet(rank))) {}
  int rank() const { return comm.rank(); }
  int world() const { return comm.size(); }
  void barrier() { MPI_Barrier(MPI_COMM_WORLD); }

  double largest(double mine) {
    double all;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
  }

  Call start(const std::string &name, Buffers &b) {
    float *in = b.in.data(), *out = b.out.data();
    size_t count = b.count, part = b.part;
    const auto f32 = ccl::datatype::float32;
    const auto sum = ccl::reduction::sum;
    if (name == "all_reduce") return [=, this] { ccl::allreduce(in, out, count, f32, sum, comm).wait(); };
    if (name == "all_gather") {
      std::vector<size_t> parts(world(), part);
      return [=, this] { ccl::allgatherv(in, part, out, parts, f32, comm).wait(); };
    }
    if (name == "reduce_scatter") return [=, this] { ccl::reduce_scatter(in, out, part, f32, sum, comm).wait(); };
    if (name == "broadcast") return [=, this] { ccl::broadcast(out, count, f32, 0, comm).wait(); };
    if (name == "all_to_all") return [=, this] { ccl::alltoall(in, out, part, f32, comm).wait(); };
    if (name == "barrier") return [this] { ccl::barrier(comm); };
    return {};
  }
};

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3) {
    fprintf(stderr, "usage: oneccl COLLECTIVE BYTES[,BYTES...]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  ccl::init();
  int rank, world, code;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  {
    OneCcl library(rank, world);
    code = measure_all(library, argv[1], argv[2]);
  }
  MPI_Finalize();
  return code;
}
