// The end of a chaos run: every count is exact, and clients and weir agree on each request.
#pragma once

#include <string>
#include <vector>

#include "tests/integration/chaos/clients.hpp"
#include "tests/integration/chaos/names.hpp"
#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::chaos {

struct Reckoning {
  std::vector<std::string> disagreements;  ///< There is a sentence for each thing that does not agree.
  std::size_t bypassed = 0;                ///< So many requests were relayed by replicas without being read.
  std::size_t without_memory = 0;          ///< So many were refused because limits.buffer_memory was spent.
};

/// weir is idle, has what the names say in its settings, and has ended so many handshakes with clients. The counters of
/// a replica that has left are gone, and those of one that has left and is there again may have begun anew.
Reckoning reckon(const std::vector<Seen>& seen, std::size_t handshakes, const Names& names,
                 const integration::WeirUnderTest& weir);

}  // namespace weir::chaos
