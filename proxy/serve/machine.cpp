#include "proxy/serve/machine.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace weir::proxy::serve {
namespace {

/// So many descriptors serve neither a client nor its replica: listeners, loops, logs, scrapes, idle connections.
constexpr std::size_t other_descriptors = 64;

}  // namespace

unsigned allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  auto cpus = ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : 1U;
  std::ifstream quota_file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (quota_file >> quota >> period && period > 0)
    cpus = std::min(cpus, static_cast<unsigned>((quota + period - 1) / period));
  return std::max(cpus, 1U);
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::size_t clients_by_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<std::size_t>::max();
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_max > other_descriptors + 2 ? (limit.rlim_max - other_descriptors) / 2 : 1;
}

}  // namespace weir::proxy::serve
