// Times a collective of any MPI library: mpi COLLECTIVE BYTES[,BYTES...], under that library's own launcher. See measure.hpp.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "measure.hpp"

struct Mpi {
  int rank_, world_;

  Mpi() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &world_);
  }
  int rank() const { return rank_; }
  int world() const { return world_; }
  void barrier() { MPI_Barrier(MPI_COMM_WORLD); }

  double largest(double mine) {
    double all;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
  }

  Call start(const std::string &name, Buffers &b) {
    float *in = b.in.data(), *out = b.out.data();
    int count = int(b.count), part = int(b.part);
    if (name == "all_reduce") return [=] { MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
    if (name == "all_gather") return [=] { MPI_Allgather(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD); };
    if (name == "reduce_scatter") return [=] { MPI_Reduce_scatter_block(in, out, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
    if (name == "broadcast") return [=] { MPI_Bcast(out, count, MPI_FLOAT, 0, MPI_COMM_WORLD); };
    if (name == "all_to_all") return [=] { MPI_Alltoall(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD); };
    if (name == "barrier") return [] { MPI_Barrier(MPI_COMM_WORLD); };
    return {};
  }
};

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3) {
    fprintf(stderr, "usage: mpi COLLECTIVE BYTES[,BYTES...]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  Mpi library;
  int code = measure_all(library, argv[1], argv[2]);
  MPI_Finalize();
  return code;
}
