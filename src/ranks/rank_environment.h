#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace nibble::ranks {

/// This process among the ranks of its job, as who started it says in variables: mpirun of Open MPI
/// (OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_SIZE, _LOCAL_RANK), of MPICH, Intel MPI and Slurm
/// (PMI_RANK, PMI_SIZE, MPI_LOCALNRANKS, MPI_LOCALRANKID or SLURM_LOCALID), or torchrun (RANK,
/// WORLD_SIZE, LOCAL_WORLD_SIZE, LOCAL_RANK). Its agent may listen at MASTER_PORT itself
/// (TORCHELASTIC_USE_AGENT_STORE); then the port behind that is meant.
struct RankPlace {
  int rank = 0;
  int size = 1;
  int local_size = 1;  // of the ranks on this host
  int local_rank = 0;  // among them; where nobody says it, as if hosts had ranks one after another
  std::string size_name;   // the variable that says the size; empty: there is none
  std::string address;     // MASTER_ADDR, where rank 0 is to be met; empty: on this host, by `job`
  std::uint16_t port = 0;  // MASTER_PORT
  std::string job;         // what no other job of this user and host is called
  bool alone() const { return size == 1; }
};

/// The value of a variable, or null.
using Variables = std::function<const char*(const char* name)>;

/// Throws kUsage for values that are none, and for ranks on several hosts without MASTER_ADDR.
RankPlace find_place(const Variables& variables);

/// That of this process's environment.
RankPlace find_place();

}  // namespace nibble::ranks
