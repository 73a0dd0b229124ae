// Asks the machine for CPUs, descriptors and its name.
#pragma once

#include <cstddef>
#include <string>

namespace weir::proxy::serve {

/// Returns how many CPUs this process may use: affinity, and the cgroup's quota rounded up. At least 1.
unsigned allowed_cpus();

std::string host_name();

/// Takes as many descriptors as the system allows this process. Returns for how many clients they are enough, each with
/// a replica's connection. With more clients than that, none of them would reach a replica.
std::size_t clients_by_descriptors();

}  // namespace weir::proxy::serve
