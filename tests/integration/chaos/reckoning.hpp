// The end of a chaos run: every count is exact, and clients and weir agree on each request.
#pragma once

#include <string>
#include <vector>

#include "tests/integration/chaos/clients.hpp"
#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::chaos {

struct Reckoning {
  std::vector<std::string> disagreements;  ///< There is a sentence for each thing that does not agree.
  std::size_t bypassed = 0;                ///< So many requests were relayed by replicas without being read.
  std::size_t without_memory = 0;          ///< So many were refused because limits.buffer_memory was spent.
};

/// weir is idle, and has ended so many handshakes with clients.
Reckoning reckon(const std::vector<Seen>& seen, std::size_t handshakes, const integration::WeirUnderTest& weir);

}  // namespace weir::chaos
